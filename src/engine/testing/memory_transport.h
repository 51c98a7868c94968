// A hand-off transport inside one process, for tests of the engine: bytes move one block a poll,
// straight between pools of equal shape, and faults are set by hand. Everything belongs to one
// thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "src/base/rng.h"
#include "src/transfer/transfer.h"

namespace baton::engine::testing {

class MemorySource;

// Where sinks find sources, and the faults of the wire.
struct MemoryFabric {
  std::map<std::string, MemorySource*> sources;  // by endpoint
  uint32_t cut_every = 0;  // each n-th fetch is cut after its first block; 0: none
  bool stalled = false;    // no byte moves, nobody hears anything
  uint64_t fetches = 0;
};

class MemorySource : public transfer::KvSource {
 public:
  MemorySource(MemoryFabric* fabric, std::string endpoint, backend::Buffer pool,
               backend::KvShape shape, const Clock* clock);
  ~MemorySource() override;

  std::string endpoint() const override { return endpoint_; }
  Status Offer(const transfer::OfferSpec& offer) override;
  void Withdraw(uint64_t lease, const std::string& reason) override;
  std::vector<transfer::LeaseEnded> Poll() override;

  // For sinks. `peer` binds the lease. Empty: not offered yet, ask again.
  Result<std::optional<transfer::OfferSpec>> Ask(uint64_t lease, const std::string& peer);
  Status Read(uint64_t lease, BlockId block, std::byte* to);  // not OK: the lease is over
  Status Done(uint64_t lease);                                // OK: what was read is valid
  void PeerAborts(uint64_t lease, const std::string& peer);
  void RefuseOffers(bool refuse) { refuse_ = refuse; }

 private:
  struct Lease {
    transfer::OfferSpec offer;
    std::string peer;
    MonoTime deadline;
  };
  void End(uint64_t lease, transfer::LeaseEnd end, const std::string& reason);

  MemoryFabric* const fabric_;
  const std::string endpoint_;
  const backend::Buffer pool_;
  const backend::KvShape shape_;
  const Clock* const clock_;
  std::map<uint64_t, Lease> leases_;
  std::map<uint64_t, std::string> ended_;  // why
  std::vector<transfer::LeaseEnded> reports_;
  bool refuse_ = false;
};

class MemorySink : public transfer::KvSink {
 public:
  MemorySink(MemoryFabric* fabric, uint32_t rank, backend::Buffer pool, backend::KvShape shape,
             const Clock* clock, uint64_t seed);
  Result<uint64_t> Start(const transfer::FetchSpec& fetch) override;
  void Abort(uint64_t fetch, const std::string& reason) override;
  std::vector<transfer::FetchEnded> Poll() override;
  uint64_t blocks_moved() const { return blocks_moved_; }

 private:
  struct Fetch {
    transfer::FetchSpec spec;
    MemorySource* source = nullptr;
    std::optional<transfer::OfferSpec> granted;
    uint32_t next_block = 0;
    uint64_t bytes = 0;
    bool cut = false;
    Status aborted;
  };
  // Empty: goes on.
  std::optional<Status> Step(Fetch* fetch);

  MemoryFabric* const fabric_;
  const uint32_t rank_;
  const backend::Buffer pool_;
  const backend::KvShape shape_;
  const Clock* const clock_;
  Rng rng_;
  std::map<uint64_t, Fetch> fetches_;
  uint64_t next_ = 1;
  uint64_t blocks_moved_ = 0;
};

}  // namespace baton::engine::testing
