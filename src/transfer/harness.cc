#include "src/transfer/harness.h"

#include <cstdlib>
#include <filesystem>
#include <thread>
#include <utility>

#include "src/base/check.h"
#include "src/transfer/layout.h"

namespace baton::transfer::testing {

wire::Layout BigLayout() {
  wire::Layout layout;
  layout.layers_per_stage = {8};
  layout.layers = 8;
  layout.heads = 8;
  layout.kv_heads = 4;
  layout.head_dim = 64;
  layout.block_tokens = 16;
  layout.kv_dtype = "bf16";
  layout.weights_hash = "feedfacecafebeef";
  layout.rope = "base=10000";
  return layout;
}

Fabric::Fabric(std::string transport, std::string folder)
    : transport_(std::move(transport)), folder_(std::move(folder)) {
  if (transport_ == "sim") sim_ = MakeSimNetwork(&RealClock(), {});
  if (!folder_.empty()) return;
  // Not the test's own folder, whose path is too long for sockets.
  char name[] = "/tmp/kvXXXXXX";
  CHECK(mkdtemp(name) != nullptr);
  folder_ = name;
  own_folder_ = true;
}

Fabric::~Fabric() {
  // Sockets of killed processes stay in it.
  if (own_folder_) std::filesystem::remove_all(folder_);
}

TestRank Fabric::MakeRank(const std::string& instance, uint64_t epoch, const wire::Layout& layout,
                          uint32_t rank, uint32_t blocks) {
  TestRank made;
  made.local = {instance, InstanceEpoch(epoch), rank, layout, {}, ShapeOf(layout, rank, blocks)};
  auto pool = HostPool::Create(instance, made.local.shape.pool_bytes());
  CHECK_OK(pool.status());
  made.pool = std::move(*pool);
  made.local.pool = made.pool->buffer();
  auto pair = sim_ != nullptr
                  ? sim_->Make(made.local)
                  : MakeTransport(transport_, made.local, made.pool->fd(), folder_, &RealClock());
  CHECK_OK(pair.status());
  made.pair = std::move(*pair);
  return made;
}

std::vector<TestRank> Fabric::MakeInstance(const std::string& instance, uint64_t epoch,
                                           const wire::Layout& layout, uint32_t blocks) {
  std::vector<TestRank> ranks;
  for (uint32_t r = 0; r < RankCount(layout); ++r) {
    ranks.push_back(MakeRank(instance, epoch, layout, r, blocks));
  }
  return ranks;
}

OfferSpec MakeOffer(uint64_t lease, const std::vector<BlockId>& blocks) {
  OfferSpec offer;
  offer.lease = lease;
  offer.attempt = Attempt(1);
  offer.blocks = blocks;
  offer.tokens = static_cast<uint32_t>(blocks.size());
  offer.offer_deadline = RealClock().Now() + std::chrono::seconds(20);
  offer.transfer_timeout = std::chrono::seconds(10);
  return offer;
}

wire::HandoffDescriptor Describe(const std::vector<TestRank>& owners, const OfferSpec& offer) {
  wire::HandoffDescriptor descriptor;
  descriptor.instance = owners[0].local.instance;
  descriptor.instance_epoch = owners[0].local.instance_epoch;
  descriptor.attempt = offer.attempt;
  descriptor.lease = offer.lease;
  descriptor.layout = owners[0].local.layout;
  descriptor.tokens = offer.tokens;
  for (const BlockId block : offer.blocks) descriptor.blocks.push_back(block.value);
  for (const TestRank& rank : owners) {
    descriptor.endpoints.push_back({rank.local.rank, rank.pair.source->endpoint()});
  }
  return descriptor;
}

FetchSpec MakeFetch(const wire::HandoffDescriptor& descriptor, const std::vector<BlockId>& blocks) {
  FetchSpec fetch;
  fetch.descriptor = descriptor;
  fetch.blocks = blocks;
  fetch.receiver = "generation/7/assignment-" + std::to_string(descriptor.lease);
  fetch.deadline = RealClock().Now() + std::chrono::seconds(20);
  return fetch;
}

bool Until(const std::function<bool()>& done, const std::function<void()>& step, Nanos limit) {
  const MonoTime end = RealClock().Now() + limit;
  while (!done()) {
    if (end <= RealClock().Now()) return false;
    step();
    // Another process may need this core.
    std::this_thread::yield();
  }
  return true;
}

}  // namespace baton::transfer::testing
