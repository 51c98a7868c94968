// Hand-off between processes of one host: control messages over a Unix-domain socket in a private
// folder, and the receiver copies out of the owner's pool, which it maps read-only. The owner
// passes the pool's descriptor, reopened for reading only, in its first packet (hello). A peer's
// death closes its socket. Endpoint text: "mapped:" and the socket's path.
#pragma once

#include <memory>
#include <string>

#include "src/base/result.h"
#include "src/transfer/link.h"
#include "src/transfer/transfer.h"

namespace baton::transfer {

// `pool_fd` is a memfd sealed against shrinking that holds local.pool from its offset 0 on; it
// stays the caller's. The socket's file is removed with the link. kInvalidArgument: no such folder,
// path too long, pool smaller than it should be.
Result<std::unique_ptr<OwnerLink>> MakeMappedOwnerLink(const LocalRank& local, int pool_fd,
                                                       const std::string& folder);
Result<std::unique_ptr<ReceiverLink>> MakeMappedReceiverLink();

}  // namespace baton::transfer
