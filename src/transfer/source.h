// KvSource over any link: the pure Owner, and for links that push, the sending. One owner thread
// (the rank's). Fault points: transfer.send.cut cuts the connection instead of the next message.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "src/transfer/link.h"
#include "src/transfer/owner.h"
#include "src/transfer/runs.h"
#include "src/transfer/transfer.h"

namespace baton::transfer {

class Source : public KvSource {
 public:
  // The pool in `local` and the clock outlive the source.
  Source(const LocalRank& local, std::unique_ptr<OwnerLink> link, const Clock* clock);

  std::string endpoint() const override { return link_->endpoint(); }
  Status Offer(const OfferSpec& offer) override;
  void Withdraw(uint64_t lease, const std::string& reason) override;
  std::vector<LeaseEnded> Poll() override;

 private:
  // Lease, receiver rank, fetch: ranks of one receiver number their fetches alike.
  using PushKey = std::tuple<uint64_t, uint32_t, uint64_t>;
  struct PushState {
    LegStream stream;
    uint64_t sent = 0;
  };

  void SendAll();
  void PushSome();
  PushState MakeState(const Owner::Push& push) const;
  // Sends the next piece; 0 when there is nothing to send or no room.
  uint64_t PushPiece(const Owner::Push& push, PushState* state);
  bool CutByFault(PeerId peer);

  const LocalRank local_;
  std::unique_ptr<OwnerLink> link_;
  const Clock* clock_;
  Owner owner_;
  std::map<PushKey, PushState> pushing_;
  size_t turn_ = 0;
};

}  // namespace baton::transfer
