// Receiver's half of the protocol: fetches of one rank, each with one leg per owner rank that it
// reads from. Pure: messages, progress and time in, messages and ended fetches out. One owner
// thread (the rank's); lives inside a Sink.
//
// A fetch ends exactly once, and OK only when every leg was told `valid`. When one leg fails, the
// others are aborted in the same call.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "src/transfer/layout.h"
#include "src/transfer/protocol.h"
#include "src/transfer/runs.h"
#include "src/transfer/transfer.h"

namespace baton::transfer {

class Receiver {
 public:
  // `layout` and `epoch` are this rank's instance's; `pool_blocks` bounds destinations.
  explicit Receiver(const LocalRank& local, ReceiverLimits limits = {});

  // What Start will need connections to: owner rank and endpoint text, in the order of legs.
  // kInvalidArgument when the descriptor cannot be served here, kAlreadyExists when it was used,
  // kResourceExhausted when too many fetches run.
  Result<std::vector<wire::RankEndpoint>> Prepare(const FetchSpec& spec) const;
  // `peers` are the connections in that order. Call right after Prepare.
  uint64_t Start(const FetchSpec& spec, const std::vector<PeerId>& peers, MonoTime now);
  void Abort(uint64_t fetch, const std::string& reason);
  void OnMessage(PeerId from, const Message& message, MonoTime now);
  void OnPeerLost(PeerId peer, const Status& why);
  void OnTime(MonoTime now);

  // A leg whose bytes are on their way.
  struct Copy {
    uint64_t fetch = 0;
    uint32_t owner_rank = 0;
    PeerId peer = 0;
    uint64_t received = 0;              // of stream->total_bytes()
    const LegStream* stream = nullptr;  // until the next call of a non-const member
  };
  std::vector<Copy> Copies() const;
  // The copy that this message belongs to; false when there is none.
  bool FindCopy(PeerId from, const Message& message, Copy* copy) const;
  // `bytes` more of that leg lie in the pool. After the last one, done is sent.
  void OnCopied(uint64_t fetch, uint32_t owner_rank, uint64_t bytes, MonoTime now);
  void OnCopyFailed(uint64_t fetch, uint32_t owner_rank, const Status& why);

  std::vector<Outgoing> TakeMessages();
  std::vector<FetchEnded> TakeEnded();
  // Whether any fetch still uses the connection.
  bool Uses(PeerId peer) const;
  size_t open_fetches() const { return fetches_.size(); }
  uint64_t dropped() const { return dropped_; }

 private:
  enum class State : uint8_t { kAsking, kCopying, kConfirming, kValid };
  struct LegState {
    uint32_t owner_rank = 0;
    PeerId peer = 0;
    State state = State::kAsking;
    LegStream stream;
    uint64_t received = 0;
    uint64_t reported = 0;
    MonoTime next_send;
    Nanos retry{};
    MonoTime give_up;  // of the state it is in
  };
  struct Fetch {
    FetchSpec spec;
    std::vector<LegState> legs;
  };

  void OnLegMessage(uint64_t id, Fetch* fetch, LegState* leg, const Message& message, MonoTime now);
  void OnGrant(uint64_t id, const Fetch& fetch, LegState* leg, const Message& grant, MonoTime now);
  void Confirm(uint64_t id, const Fetch& fetch, LegState* leg, MonoTime now);
  void SendLeg(uint64_t id, const Fetch& fetch, LegState* leg, Kind kind,
               const std::string& reason = "");
  // Sends what the leg repeats in its state and sets the next time.
  void Repeat(uint64_t id, const Fetch& fetch, LegState* leg, MonoTime now);
  void FinishIfValid(uint64_t id);
  void Fail(uint64_t id, const Status& why);
  Status Late(const Fetch& fetch, const LegState& leg, const std::string& what) const;
  LegState* FindLeg(uint64_t fetch, uint32_t owner_rank);

  const LocalRank local_;
  const ReceiverLimits limits_;
  uint64_t next_id_;
  std::map<uint64_t, Fetch> fetches_;
  using Use = std::tuple<std::string, uint64_t, uint64_t>;  // instance, epoch, lease
  std::set<Use> used_;
  std::deque<Use> used_order_;
  std::vector<Outgoing> outgoing_;
  std::vector<FetchEnded> ended_;
  uint64_t dropped_ = 0;
};

}  // namespace baton::transfer
