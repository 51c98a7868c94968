// For tests and the benchmark: ranks of an instance with real pools over any transport, in one
// process or as one side of two. One thread drives everything that it made.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "src/base/clock.h"
#include "src/transfer/sim/sim_network.h"
#include "src/transfer/transfer.h"

namespace baton::transfer::testing {

// One rank: 8 layers, 4 KV heads of 64, bf16, 16 tokens: 128 KiB a block.
wire::Layout BigLayout();
inline constexpr size_t kBigBlockBytes = 128u << 10;

struct TestRank {
  LocalRank local;
  std::unique_ptr<HostPool> pool;  // outlives the pair
  TransportPair pair;
  std::span<std::byte> bytes() const { return {pool->buffer().data, pool->buffer().bytes}; }
};

// Makes ranks over "sim", "mapped" or "ucx"; all that it made can reach each other.
class Fabric {
 public:
  // Sockets go to `folder`, or to a private one under /tmp when it is empty.
  explicit Fabric(std::string transport, std::string folder = "");
  ~Fabric();
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;
  // CHECKs that it works.
  TestRank MakeRank(const std::string& instance, uint64_t epoch, const wire::Layout& layout,
                    uint32_t rank, uint32_t blocks);
  std::vector<TestRank> MakeInstance(const std::string& instance, uint64_t epoch,
                                     const wire::Layout& layout, uint32_t blocks);
  const std::string& folder() const { return folder_; }

 private:
  std::string transport_;
  std::string folder_;
  bool own_folder_ = false;
  std::unique_ptr<SimNetwork> sim_;
};

// An offer with deadlines of seconds that the caller may change.
OfferSpec MakeOffer(uint64_t lease, const std::vector<BlockId>& blocks);
// What the leader of `owners` would say about that offer.
wire::HandoffDescriptor Describe(const std::vector<TestRank>& owners, const OfferSpec& offer);
FetchSpec MakeFetch(const wire::HandoffDescriptor& descriptor, const std::vector<BlockId>& blocks);

// Calls `step` until `done` or `limit` of real time; false when it was not done.
bool Until(const std::function<bool()>& done, const std::function<void()>& step,
           Nanos limit = std::chrono::seconds(30));

}  // namespace baton::transfer::testing
