// Owner's half of the protocol: leases of one rank, from offer to end. Pure: messages and time in,
// messages and ended leases out. One owner thread (the rank's); lives inside a Source.
//
// A lease ends exactly once: when every receiver rank that has a leg to this one is done, or by
// abort, loss of a peer, withdrawal or deadline. Nothing is granted or valid at or after its end.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "src/transfer/protocol.h"
#include "src/transfer/transfer.h"

namespace baton::transfer {

class Owner {
 public:
  explicit Owner(const LocalRank& local, OwnerLimits limits = {});

  // kAlreadyExists: that lease number was used. kInvalidArgument: a block outside the pool.
  // kResourceExhausted: too many leases.
  Status Offer(const OfferSpec& offer, MonoTime now);
  void Withdraw(uint64_t lease, const std::string& reason);
  void OnMessage(PeerId from, const Message& message, MonoTime now);
  // The peer is gone: leases that it still reads end.
  void OnPeerLost(PeerId peer, const std::string& why);
  // Ends what is past its deadline. Call often enough; no other call depends on it.
  void OnTime(MonoTime now);

  std::vector<Outgoing> TakeMessages();
  std::vector<LeaseEnded> TakeEnded();

  // A receiver rank that takes bytes now; for transports that push.
  struct Push {
    uint64_t lease = 0;
    uint64_t fetch = 0;
    PeerId peer = 0;
    uint32_t receiver_rank = 0;
    uint64_t received = 0;  // as it reported
    uint32_t skip_blocks = 0;
    const OfferSpec* offer = nullptr;      // until the next call of a non-const member
    const wire::Layout* layout = nullptr;  // the receiver's, likewise
  };
  std::vector<Push> Pushes() const;

  size_t open_leases() const { return leases_.size(); }
  // Messages that belonged to nothing here; late and stale is normal.
  uint64_t dropped() const { return dropped_; }

 private:
  struct Reader {
    uint64_t fetch = 0;
    PeerId peer = 0;
    uint32_t skip_blocks = 0;
    uint64_t received = 0;
    bool fetching = false;
    bool done = false;
  };
  struct Lease {
    OfferSpec offer;
    MonoTime deadline;
    std::string receiver;  // empty until the first ask
    wire::Layout layout;
    std::vector<uint32_t> expected;      // receiver ranks
    std::map<uint32_t, Reader> readers;  // by receiver rank
  };
  // What is remembered of an ended lease.
  struct Tombstone {
    LeaseEnd end = LeaseEnd::kDone;
    std::string reason;
    std::map<uint32_t, uint64_t> valid;  // receiver rank -> fetch that was told `valid`
  };

  void OnAsk(PeerId from, const Message& ask, MonoTime now);
  void OnFetch(const Message& fetch, MonoTime now);
  void OnDone(PeerId from, const Message& done, MonoTime now);
  void OnAbort(const Message& abort);
  // What forbids the ask on this live lease; empty reason: nothing.
  std::string WhyNot(const Lease& lease, const Message& ask, RefuseCode* code) const;
  Status CheckAsked(const Lease& lease, const Message& ask) const;
  void Bind(Lease* lease, const Message& ask) const;
  void Renew(Lease* lease, MonoTime now);
  void End(uint64_t number, LeaseEnd end, const std::string& reason);
  void TellStale(uint64_t number, uint32_t rank, const Reader& reader, const std::string& reason);
  void ExpireIfDue(uint64_t number, MonoTime now);
  std::string Waiting(const Lease& lease) const;
  void Send(PeerId to, const Message& about, Kind kind, RefuseCode code = RefuseCode::kEnded,
            const std::string& reason = "");
  Reader* FindReader(const Message& message);

  const LocalRank local_;
  const OwnerLimits limits_;
  std::map<uint64_t, Lease> leases_;
  std::map<uint64_t, Tombstone> tombstones_;
  std::deque<uint64_t> tombstone_order_;
  MonoTime next_deadline_ = MonoTime::Max();  // no lease is due before
  std::vector<Outgoing> outgoing_;
  std::vector<LeaseEnded> ended_;
  uint64_t dropped_ = 0;
};

}  // namespace baton::transfer
