#include <utility>

#include "src/transfer/local_rank.h"
#include "src/transfer/mapped/mapped_link.h"
#include "src/transfer/sink.h"
#include "src/transfer/source.h"
#include "src/transfer/transfer.h"
#include "src/transfer/ucx/ucx_link.h"

namespace baton::transfer {

Result<TransportPair> MakeTransport(const std::string& name, const LocalRank& local, int pool_fd,
                                    const std::string& folder, const Clock* clock) {
  BATON_RETURN_IF_ERROR(CheckLocalRank(local));
  std::unique_ptr<OwnerLink> owner;
  std::unique_ptr<ReceiverLink> receiver;
  if (name == "mapped") {
    ASSIGN_OR_RETURN(owner, MakeMappedOwnerLink(local, pool_fd, folder));
    ASSIGN_OR_RETURN(receiver, MakeMappedReceiverLink());
  } else if (name == "ucx") {
    ASSIGN_OR_RETURN(owner, MakeUcxOwnerLink(clock));
    ASSIGN_OR_RETURN(receiver, MakeUcxReceiverLink(clock));
  } else {
    return InvalidArgumentError("transport '" + name + "' is none of: mapped, ucx");
  }
  return TransportPair{std::make_unique<Source>(local, std::move(owner), clock),
                       std::make_unique<Sink>(local, std::move(receiver), clock)};
}

}  // namespace baton::transfer
