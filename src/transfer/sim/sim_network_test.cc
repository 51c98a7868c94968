#include "src/transfer/sim/sim_network.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "src/transfer/layout.h"
#include "src/transfer/testing.h"

namespace baton::transfer {
namespace {

using std::chrono::milliseconds;
using testing::Blocks;
using testing::MakeLayout;

struct Rank {
  Rank(SimNetwork* network, const std::string& instance, const wire::Layout& layout)
      : memory(ShapeOf(layout, 0, 64).pool_bytes()) {
    local = {instance,
             InstanceEpoch(1),
             0,
             layout,
             {backend::Space::kHost, memory.data(), memory.size()},
             ShapeOf(layout, 0, 64)};
    auto made = network->Make(local);
    CHECK_OK(made.status());
    pair = std::move(*made);
  }
  std::vector<std::byte> memory;
  LocalRank local;
  TransportPair pair;
};

void Offer(Rank* owner, uint64_t lease, MonoTime now) {
  OfferSpec offer{lease, Attempt(1), Blocks(0, 8), 16, now + milliseconds(300), milliseconds(200)};
  testing::FillBlocks(owner->local.layout, 0, offer.blocks, 1, owner->memory);
  CHECK_OK(owner->pair.source->Offer(offer));
}

FetchSpec Fetch(const Rank& owner, uint64_t lease, MonoTime deadline) {
  FetchSpec fetch;
  fetch.descriptor.instance = owner.local.instance;
  fetch.descriptor.instance_epoch = InstanceEpoch(1);
  fetch.descriptor.attempt = Attempt(1);
  fetch.descriptor.lease = lease;
  fetch.descriptor.layout = owner.local.layout;
  fetch.descriptor.endpoints = {{0, owner.pair.source->endpoint()}};
  for (uint32_t b = 0; b < 8; ++b) fetch.descriptor.blocks.push_back(b);
  fetch.blocks = Blocks(8, 8);
  fetch.receiver = "g/1/" + std::to_string(lease);
  fetch.deadline = deadline;
  return fetch;
}

// What ended when, as text.
std::string RunSeed(uint64_t seed) {
  ManualClock clock;
  auto network = MakeSimNetwork(
      &clock, {.seed = seed, .loss = 0.2, .repeat = 0.2, .delay_max = milliseconds(20)});
  Rank owner(network.get(), "c", MakeLayout(1, 1, 4, 4));
  Rank receiver(network.get(), "g", MakeLayout(1, 1, 4, 4));
  std::string trace;
  for (uint64_t lease = 1; lease <= 20; ++lease) {
    Offer(&owner, lease, clock.Now());
    CHECK_OK(
        receiver.pair.sink->Start(Fetch(owner, lease, clock.Now() + milliseconds(900))).status());
  }
  for (int ms = 0; ms < 1000; ++ms, clock.Advance(milliseconds(1))) {
    for (const LeaseEnded& e : owner.pair.source->Poll()) {
      trace += std::to_string(ms) + " lease " + std::to_string(e.lease) + " " + e.reason + "\n";
    }
    for (const FetchEnded& e : receiver.pair.sink->Poll()) {
      trace += std::to_string(ms) + " fetch " + e.status.ToString() + "\n";
    }
  }
  return trace;
}

TEST(SimNetwork, ASeedRepeatsARunExactly) {
  const std::string first = RunSeed(5);
  EXPECT_EQ(std::count(first.begin(), first.end(), '\n'), 40);
  EXPECT_EQ(RunSeed(5), first);
  EXPECT_NE(RunSeed(6), first);
}

TEST(SimNetwork, WhileCutNothingPassesAndDeadlinesEndIt) {
  ManualClock clock;
  auto network = MakeSimNetwork(&clock, {});
  Rank owner(network.get(), "c", MakeLayout(1, 1, 4, 4));
  Rank receiver(network.get(), "g", MakeLayout(1, 1, 4, 4));
  network->SetCut("g", "c", true);
  Offer(&owner, 1, clock.Now());
  ASSERT_TRUE(receiver.pair.sink->Start(Fetch(owner, 1, clock.Now() + milliseconds(100))).ok());
  receiver.pair.sink->Poll();
  EXPECT_TRUE(owner.pair.source->Poll().empty());
  clock.Advance(milliseconds(301));
  const std::vector<LeaseEnded> leases = owner.pair.source->Poll();
  const std::vector<FetchEnded> fetches = receiver.pair.sink->Poll();
  ASSERT_EQ(leases.size(), 1u);
  ASSERT_EQ(fetches.size(), 1u);
  EXPECT_EQ(leases[0].end, LeaseEnd::kOfferExpired);
  EXPECT_EQ(fetches[0].status.code(), StatusCode::kDeadlineExceeded);
}

TEST(SimNetwork, RanksMayLiveOnDifferentThreads) {
  auto network = MakeSimNetwork(&RealClock(), {});
  Rank owner(network.get(), "c", MakeLayout(1, 1, 4, 4));
  Rank receiver(network.get(), "g", MakeLayout(1, 1, 4, 4));
  constexpr uint64_t kLeases = 50;
  const MonoTime far = RealClock().Now() + std::chrono::seconds(50);
  for (uint64_t lease = 1; lease <= kLeases; ++lease) {
    OfferSpec offer{lease, Attempt(1), Blocks(0, 8), 16, far, std::chrono::seconds(50)};
    ASSERT_TRUE(owner.pair.source->Offer(offer).ok());
  }
  std::atomic<uint64_t> ended{0};
  std::thread serving([&] {
    while (ended < kLeases && RealClock().Now() < far) ended += owner.pair.source->Poll().size();
  });
  uint64_t good = 0;
  for (uint64_t lease = 1; lease <= kLeases; ++lease) {
    ASSERT_TRUE(receiver.pair.sink->Start(Fetch(owner, lease, far)).ok());
  }
  for (uint64_t seen = 0; seen < kLeases && RealClock().Now() < far;) {
    for (const FetchEnded& e : receiver.pair.sink->Poll()) {
      ++seen;
      good += e.status.ok();
    }
  }
  serving.join();
  EXPECT_EQ(good, kLeases);
  EXPECT_EQ(ended, kLeases);
}

}  // namespace
}  // namespace baton::transfer
