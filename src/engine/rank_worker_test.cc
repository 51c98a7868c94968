#include "src/engine/rank_worker.h"

#include <gtest/gtest.h>

#include "src/base/fault.h"
#include "src/engine/testing/delayed_backend.h"
#include "src/engine/testing/memory_transport.h"
#include "src/engine/testing/tiny_backend.h"

namespace baton::engine {
namespace {

using testing::DelayedBackend;
using testing::MemoryFabric;
using testing::MemorySink;
using testing::MemorySource;
using testing::TinyBackend;

constexpr AdmissionId kOne(1);

class RankWorkerTest : public ::testing::Test {
 protected:
  Plan Next() {
    Plan plan;
    plan.number = PlanNumber(++plans_);
    return plan;
  }
  // Admits sequence 1 with two blocks and computes its five-token prompt.
  Plan First() {
    Plan plan = Next();
    plan.admissions.push_back({.admission = kOne, .history = {1, 2, 3, 4, 5}, .prompt_tokens = 5});
    plan.blocks.push_back({kOne, {BlockId(0), BlockId(1)}});
    plan.step = 1;
    plan.rows.push_back({.admission = kOne, .tokens = {1, 2, 3, 4, 5}, .sample = true});
    return plan;
  }
  Plan Finish(PlanNumber last) {
    Plan plan = Next();
    plan.finishes.push_back({kOne, last});
    return plan;
  }
  PlanOffer MakeOffer() {
    return {.admission = kOne,
            .lease = 1,
            .tokens = 5,
            .after = PlanNumber(1),
            .offer_timeout = Millis(10),
            .transfer_timeout = Millis(10)};
  }
  bool Voted(VoteKind kind, const RankReport& report) {
    for (const Vote& vote : report.votes) {
      if (vote.kind == kind) return true;
    }
    return false;
  }
  RankReport Poll() {
    auto report = worker_.Poll();
    CHECK_OK(report.status());
    return *report;
  }

  uint64_t plans_ = 0;
  ManualClock clock_;
  TinyBackend tiny_{{}};
  DelayedBackend backend_{&tiny_, 0, 1};
  MemoryFabric fabric_;
  MemorySource source_{&fabric_, "here", tiny_.kv_pool(), tiny_.kv_shape(), &clock_};
  MemorySink sink_{&fabric_, 0, tiny_.kv_pool(), tiny_.kv_shape(), &clock_, 1};
  RankWorker worker_{Rank(0), &backend_, &source_, &sink_, &clock_};
};

TEST_F(RankWorkerTest, PlansWithoutAGapOrNothing) {
  Plan plan = First();
  plan.number = PlanNumber(2);
  EXPECT_NE(worker_.Apply(plan).message().find("plan 2 came after plan 0"), std::string::npos);
}

TEST_F(RankWorkerTest, APlanThatNamesAStrangerIsAnError) {
  EXPECT_NE(worker_.Apply(Finish(PlanNumber(0))).message().find("admission 1, which is not here"),
            std::string::npos);
}

TEST_F(RankWorkerTest, ARowBeyondItsBlocksIsAnError) {
  Plan plan = First();
  plan.blocks[0].blocks.pop_back();
  EXPECT_NE(worker_.Apply(plan).message().find("position 4"), std::string::npos);
}

TEST_F(RankWorkerTest, TheReleaseVoteWaitsForTheLastPlanOnTheDevice) {
  ASSERT_TRUE(worker_.Apply(First()).ok());
  ASSERT_TRUE(worker_.Apply(Finish(PlanNumber(1))).ok());
  backend_.Hang();
  EXPECT_FALSE(Voted(VoteKind::kReleased, Poll()));
  EXPECT_FALSE(Voted(VoteKind::kReleased, Poll()));
}

TEST_F(RankWorkerTest, AReleaseBeforeTheVoteIsAnError) {
  ASSERT_TRUE(worker_.Apply(First()).ok());
  Plan release = Next();
  release.releases = {kOne};
  EXPECT_NE(worker_.Apply(release).message().find("before this rank voted"), std::string::npos);
}

TEST_F(RankWorkerTest, VotesOnceAndReleasesByPlan) {
  ASSERT_TRUE(worker_.Apply(First()).ok());
  ASSERT_TRUE(worker_.Apply(Finish(PlanNumber(1))).ok());
  const RankReport report = Poll();
  ASSERT_EQ(report.steps.size(), 1u);
  EXPECT_TRUE(Voted(VoteKind::kReleased, report));
  EXPECT_FALSE(Voted(VoteKind::kReleased, Poll()));
  Plan release = Next();
  release.releases = {kOne};
  ASSERT_TRUE(worker_.Apply(release).ok());
  EXPECT_EQ(worker_.sequences(), 0u);
  EXPECT_EQ(tiny_.open_sequences(), 0u);
}

TEST_F(RankWorkerTest, AnOfferWaitsUntilItsBytesAreThere) {
  DelayedBackend slow(&tiny_, 0, 1);
  RankWorker worker(Rank(0), &slow, &source_, &sink_, &clock_);
  slow.Hang();
  ASSERT_TRUE(worker.Apply(First()).ok());
  Plan plan = Next();
  plan.offers.push_back(MakeOffer());
  ASSERT_TRUE(worker.Apply(plan).ok());
  EXPECT_FALSE(Voted(VoteKind::kOffered, *worker.Poll()));
  EXPECT_FALSE(source_.Ask(1, "peer")->has_value());
  EXPECT_TRUE(worker.transfers_open());
}

TEST_F(RankWorkerTest, ALeaseHoldsTheReleaseVoteUntilItEnds) {
  ASSERT_TRUE(worker_.Apply(First()).ok());
  Plan plan = Next();
  plan.offers.push_back(MakeOffer());
  plan.finishes.push_back({kOne, PlanNumber(1)});
  ASSERT_TRUE(worker_.Apply(plan).ok());
  RankReport report = Poll();
  EXPECT_TRUE(Voted(VoteKind::kOffered, report));
  EXPECT_FALSE(Voted(VoteKind::kReleased, report));
  EXPECT_TRUE(source_.Ask(1, "peer")->has_value());
  EXPECT_FALSE(Voted(VoteKind::kReleased, Poll()));
  ASSERT_TRUE(source_.Done(1).ok());
  report = Poll();
  ASSERT_EQ(report.leases.size(), 1u);
  EXPECT_EQ(report.leases[0].end, "done");
  EXPECT_TRUE(Voted(VoteKind::kReleased, report));
  EXPECT_FALSE(worker_.transfers_open());
}

TEST_F(RankWorkerTest, AnAbortedFetchHoldsTheReleaseVoteUntilItsCopiesHaveEnded) {
  ASSERT_TRUE(
      source_
          .Offer(
              {.lease = 9, .blocks = {BlockId(7), BlockId(8)}, .offer_deadline = MonoTime::Max()})
          .ok());
  Plan plan = Next();
  plan.admissions.push_back({.admission = kOne, .history = {1, 2, 3, 4, 5}, .prompt_tokens = 5});
  plan.blocks.push_back({kOne, {BlockId(0), BlockId(1)}});
  PlanFetch fetch{.admission = kOne, .receiver = "me", .time_left = Millis(10)};
  fetch.descriptor.lease = 9;
  fetch.descriptor.endpoints = {{0, "here"}};
  fetch.descriptor.layout.block_tokens = 4;
  plan.fetches.push_back(fetch);
  ASSERT_TRUE(worker_.Apply(plan).ok());
  Plan end = Next();
  end.aborts.push_back({kOne, "cancelled"});
  end.finishes.push_back({kOne, PlanNumber(1)});
  ASSERT_TRUE(worker_.Apply(end).ok());
  int held = 0;
  for (int i = 0; i < 200; ++i) {
    const RankReport report = Poll();
    const bool ended = Voted(VoteKind::kReceived, report);
    EXPECT_EQ(Voted(VoteKind::kReleased, report), ended);
    if (ended) break;
    ++held;
  }
  EXPECT_GT(held, 0);
  EXPECT_LT(held, 200);
  EXPECT_FALSE(worker_.transfers_open());
}

TEST_F(RankWorkerTest, AnAbortedOfferThatWasNotMadeIsNeverMade) {
  ASSERT_TRUE(worker_.Apply(First()).ok());
  Plan plan = Next();
  plan.offers.push_back(MakeOffer());
  plan.aborts.push_back({kOne, "cancelled"});
  plan.finishes.push_back({kOne, PlanNumber(1)});
  ASSERT_TRUE(worker_.Apply(plan).ok());
  const RankReport report = Poll();
  EXPECT_TRUE(Voted(VoteKind::kReleased, report));
  EXPECT_FALSE(source_.Ask(1, "peer")->has_value());
  EXPECT_FALSE(worker_.transfers_open());
}

TEST_F(RankWorkerTest, EqualPlansGiveEqualDigestsAndOtherBlocksAnother) {
  TinyBackend other({});
  RankWorker twin(Rank(1), &other, nullptr, nullptr, &clock_);
  TinyBackend third({});
  RankWorker stranger(Rank(2), &third, nullptr, nullptr, &clock_);
  Plan plan = First();
  ASSERT_TRUE(worker_.Apply(plan).ok());
  ASSERT_TRUE(twin.Apply(plan).ok());
  plan.blocks[0].blocks[1] = BlockId(2);
  ASSERT_TRUE(stranger.Apply(plan).ok());
  const uint64_t digest = Poll().steps[0].digest;
  EXPECT_EQ(twin.Poll()->steps[0].digest, digest);
  EXPECT_NE(stranger.Poll()->steps[0].digest, digest);
}

TEST_F(RankWorkerTest, TheFaultPointLosesTheRank) {
  ASSERT_TRUE(SetFaultPlan("engine.step=fire@1").ok());
  EXPECT_EQ(worker_.Apply(First()).code(), StatusCode::kUnavailable);
  ASSERT_TRUE(SetFaultPlan("").ok());
}

}  // namespace
}  // namespace baton::engine
