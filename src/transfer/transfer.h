// KV hand-off of one rank: the owner offers a lease, the receiver pulls (design §8).
//
//   ask -> grant | wait | refuse(reason) -> fetch -> done -> valid | stale
//
// One protocol (protocol.h, pure) over several transports: mapped host memory (the pool in a
// memfd), UCX, and an in-memory one for simulation. Which peer rank holds which layers and heads is
// a pure function of two layouts (layout.h). Nothing here blocks: both sides are polled by the
// thread that owns the rank, and every wait has a deadline. The receiver may use, index or vote for
// bytes only after its transfer ended OK, which means `valid` from every owner rank.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/backend/backend.h"
#include "src/base/clock.h"
#include "src/base/ids.h"
#include "src/base/result.h"
#include "src/wire/messages.h"

namespace baton::transfer {

// The pool's place in this process and in the model.
struct LocalRank {
  std::string instance;
  InstanceEpoch instance_epoch;
  uint32_t rank = 0;  // within the instance: stage * tp + column
  wire::Layout layout;
  backend::Buffer pool;
  backend::KvShape shape;
};

struct OfferSpec {
  uint64_t lease = 0;  // never reused within the instance epoch
  Attempt attempt;
  std::vector<BlockId> blocks;                  // in order of positions
  uint32_t tokens = 0;                          // positions held
  MonoTime offer_deadline;                      // nobody asked by then: the lease ends
  Nanos transfer_timeout{};                     // from the first ask, renewed by progress only
  MonoTime request_deadline = MonoTime::Max();  // caps both
};

enum class LeaseEnd : uint8_t { kDone, kAborted, kOfferExpired, kTransferExpired, kWithdrawn };

struct LeaseEnded {
  uint64_t lease = 0;
  LeaseEnd end = LeaseEnd::kDone;
  std::string reason;  // names the peer
};

// Owner's side. After a lease is reported ended, its blocks may be released: a receiver that still
// copies finds its bytes stale.
class KvSource {
 public:
  virtual ~KvSource() = default;
  // What a peer needs to reach this rank; goes into HandoffDescriptor::endpoints.
  virtual std::string endpoint() const = 0;
  virtual Status Offer(const OfferSpec& offer) = 0;
  // Ends the lease early; it is reported by Poll as kWithdrawn unless it had ended before.
  virtual void Withdraw(uint64_t lease, const std::string& reason) = 0;
  // Serves peers and returns the leases that ended since the last call. Call at least every few
  // milliseconds while offers are open.
  virtual std::vector<LeaseEnded> Poll() = 0;
};

struct FetchSpec {
  wire::HandoffDescriptor descriptor;
  std::vector<BlockId> blocks;  // destination, one per block of the descriptor, in order
  uint32_t skip_blocks = 0;     // leading blocks already held here; not sent
  std::string receiver;         // "instance/epoch/assignment": binds the lease
  MonoTime deadline = MonoTime::Max();
};

struct FetchEnded {
  uint64_t fetch = 0;
  Status status;  // OK only when every owner rank said `valid`
  uint64_t bytes = 0;
};

// Receiver's side.
class KvSink {
 public:
  virtual ~KvSink() = default;
  // kInvalidArgument when the layouts cannot meet (both values named). Returns a number that Poll
  // reports exactly once, also after Abort.
  virtual Result<uint64_t> Start(const FetchSpec& fetch) = 0;
  virtual void Abort(uint64_t fetch, const std::string& reason) = 0;
  virtual std::vector<FetchEnded> Poll() = 0;
};

// A memfd mapped into this process, so that peers on this host can map it too. Zero-filled.
class HostPool {
 public:
  static Result<std::unique_ptr<HostPool>> Create(const std::string& name, size_t bytes);
  ~HostPool();
  backend::Buffer buffer() const { return buffer_; }
  int fd() const { return fd_; }

 private:
  HostPool(int fd, backend::Buffer buffer) : fd_(fd), buffer_(buffer) {}
  int fd_;
  backend::Buffer buffer_;
};

// Makes both sides over one transport. `name` is "mapped" or "ucx". `pool_fd` is HostPool's (mapped
// only). `folder` is a private folder for sockets (mapped only; at most 80 characters). The clock
// outlives what is made.
struct TransportPair {
  std::unique_ptr<KvSource> source;
  std::unique_ptr<KvSink> sink;
};
Result<TransportPair> MakeTransport(const std::string& name, const LocalRank& local, int pool_fd,
                                    const std::string& folder, const Clock* clock);

// Empty when an instance with layout `receiver` can pull from one with layout `owner`; otherwise
// kInvalidArgument that names the field and both values.
Status CheckPairing(const wire::Layout& owner, const wire::Layout& receiver);

}  // namespace baton::transfer
