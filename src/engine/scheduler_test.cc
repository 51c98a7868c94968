#include "src/engine/scheduler.h"

#include <gtest/gtest.h>

#include <numeric>

#include "src/base/rng.h"

namespace baton::engine {
namespace {

constexpr MonoTime kNow{0};

SchedulerOptions Options(uint32_t tokens, uint32_t rows = 16, uint32_t running = 16) {
  SchedulerOptions options;
  options.running_max = running;
  options.step_tokens_max = tokens;
  options.step_rows_max = rows;
  return options;
}

kv::PrefixCacheOptions Cache(uint32_t blocks) {
  kv::PrefixCacheOptions options;
  options.blocks = blocks;
  options.block_tokens = 4;
  return options;
}

Sequence MakeSequence(uint64_t id, uint32_t prompt, uint32_t max_new, int32_t first = 0) {
  Sequence sequence;
  sequence.admission = AdmissionId(id);
  sequence.tokens.resize(prompt);
  std::iota(sequence.tokens.begin(), sequence.tokens.end(), first);
  sequence.prompt_tokens = prompt;
  sequence.max_new = max_new;
  sequence.worst_blocks = (prompt + max_new - 1 + 3) / 4;
  return sequence;
}

// What a backend would answer; each drawn token is 7.
backend::StepOutput Answer(const Plan& plan, int32_t token = 7) {
  backend::StepOutput output;
  output.step = plan.step;
  for (const PlanRow& row : plan.rows) {
    output.rows.push_back({.admission = row.admission,
                           .position = row.position + static_cast<uint32_t>(row.tokens.size()),
                           .token = row.sample ? token : -1});
  }
  return output;
}

// Completes a plan's step and accepts what it drew.
void Complete(Scheduler* scheduler, const Plan& plan) {
  const auto drawn = scheduler->Complete(Answer(plan));
  ASSERT_TRUE(drawn.ok()) << drawn.status().ToString();
  for (const DrawnToken& one : *drawn) scheduler->Accept(one.admission, one.token);
}

TEST(Scheduler, NothingToTellIsNoPlan) {
  Scheduler scheduler(Options(8), Cache(8));
  EXPECT_FALSE(scheduler.Next(kNow, true).has_value());
  EXPECT_EQ(scheduler.last_plan(), PlanNumber(0));
}

TEST(Scheduler, APromptIsCutIntoChunksOfTheBudget) {
  Scheduler scheduler(Options(6), Cache(8));
  scheduler.Add(MakeSequence(1, 14, 4));
  std::vector<size_t> chunks;
  for (int i = 0; i < 3; ++i) {
    const auto plan = scheduler.Next(kNow, true);
    ASSERT_TRUE(plan.has_value());
    ASSERT_EQ(plan->rows.size(), 1u);
    chunks.push_back(plan->rows[0].tokens.size());
    EXPECT_EQ(plan->rows[0].sample, i == 2);
  }
  EXPECT_EQ(chunks, (std::vector<size_t>{6, 6, 2}));
}

TEST(Scheduler, DecodesComeBeforePromptsAndShareTheBudget) {
  Scheduler scheduler(Options(6), Cache(32));
  scheduler.Add(MakeSequence(1, 3, 8, 0));
  scheduler.Add(MakeSequence(2, 3, 8, 100));
  Complete(&scheduler, *scheduler.Next(kNow, true));
  scheduler.Add(MakeSequence(3, 20, 8, 200));
  const auto plan = scheduler.Next(kNow, true);
  ASSERT_EQ(plan->rows.size(), 3u);
  EXPECT_EQ(plan->rows[0].admission, AdmissionId(1));
  EXPECT_EQ(plan->rows[0].tokens, std::vector<int32_t>{7});
  EXPECT_EQ(plan->rows[1].admission, AdmissionId(2));
  EXPECT_EQ(plan->rows[2].admission, AdmissionId(3));
  EXPECT_EQ(plan->rows[2].tokens.size(), 4u);
}

TEST(Scheduler, DecodesAloneNeverKeepAPromptFromAdvancing) {
  for (const auto& [tokens, rows] : {std::pair{16u, 3u}, std::pair{3u, 16u}}) {
    Scheduler scheduler(Options(tokens, rows), Cache(64));
    for (uint64_t id = 1; id <= 3; ++id) {
      scheduler.Add(MakeSequence(id, id == 3 ? 9 : 2, 20, static_cast<int32_t>(id) * 15));
    }
    scheduler.Add(MakeSequence(4, 2, 20, 0));
    for (int i = 0; i < 12; ++i) {
      const auto plan = scheduler.Next(kNow, true);
      ASSERT_TRUE(plan.has_value());
      EXPECT_LE(plan->rows.size(), 3u);
      Complete(&scheduler, *plan);
    }
    EXPECT_EQ(scheduler.waiting(), 1u);  // a fourth would not fit into a step
    for (uint64_t id = 1; id <= 3; ++id) {
      const Sequence* sequence = scheduler.Find(AdmissionId(id));
      EXPECT_GT(sequence->tokens.size(), sequence->prompt_tokens) << id;
    }
  }
}

TEST(Scheduler, AnUnreadTokenIsNamedByItsRowInTheStepBefore) {
  Scheduler scheduler(Options(16), Cache(64));
  scheduler.Add(MakeSequence(1, 3, 8, 0));
  scheduler.Add(MakeSequence(2, 3, 8, 50));
  const auto first = scheduler.Next(kNow, true);
  const auto second = scheduler.Next(kNow, true);
  ASSERT_EQ(second->rows.size(), 2u);
  EXPECT_EQ(second->rows[1].input_from_row, 1);
  EXPECT_EQ(second->rows[1].position, 3u);
  Complete(&scheduler, *first);
  Complete(&scheduler, *second);
  EXPECT_EQ(scheduler.Next(kNow, true)->rows[1].input_from_row, -1);  // known by now
}

TEST(Scheduler, NoStepComputesPastTheLastTokenWanted) {
  Scheduler scheduler(Options(16), Cache(64));
  scheduler.Add(MakeSequence(1, 3, 2));
  EXPECT_TRUE(scheduler.Next(kNow, true).has_value());
  EXPECT_TRUE(scheduler.Next(kNow, true).has_value());
  EXPECT_FALSE(scheduler.Next(kNow, true).has_value());
}

TEST(Scheduler, WhatDoesNotFitWaitsWithoutAPinAndNothingPassesIt) {
  Scheduler scheduler(Options(32), Cache(8));
  scheduler.Add(MakeSequence(1, 9, 1));
  const auto plan = scheduler.Next(kNow, true);
  Complete(&scheduler, *plan);             // two blocks of 1 are findable now
  scheduler.Add(MakeSequence(2, 12, 20));  // 8 blocks, 2 of them shared: 5 are left
  scheduler.Add(MakeSequence(3, 2, 1, 40));
  EXPECT_FALSE(scheduler.Next(kNow, true).has_value());
  EXPECT_EQ(scheduler.waiting(), 2u);
  ASSERT_TRUE(scheduler.Finish(AdmissionId(1), ""));
  EXPECT_EQ(scheduler.cache().counts().used, 3u);
  scheduler.Release(AdmissionId(1));
  EXPECT_EQ(scheduler.cache().counts().used, 0u);  // no pin of 2 is left
  const auto next = scheduler.Next(kNow, true);
  ASSERT_EQ(next->admissions.size(), 1u);
  EXPECT_EQ(next->releases, std::vector<AdmissionId>{AdmissionId(1)});
  EXPECT_EQ(scheduler.Find(AdmissionId(2))->cached_tokens, 8u);
}

TEST(Scheduler, BlocksThatWereReservedAreThereWhenTheyAreNeeded) {
  Scheduler scheduler(Options(64), Cache(10));
  scheduler.Add(MakeSequence(1, 4, 17, 0));   // 5 blocks in the end, one at first
  scheduler.Add(MakeSequence(2, 4, 17, 50));  // the other 5
  scheduler.Add(MakeSequence(3, 4, 1, 90));   // fits into what is free, not into what is promised
  for (int i = 0; i < 17; ++i) {
    const auto plan = scheduler.Next(kNow, true);
    ASSERT_TRUE(plan.has_value());
    ASSERT_EQ(plan->rows.size(), 2u);
    Complete(&scheduler, *plan);
  }
  EXPECT_EQ(scheduler.waiting(), 1u);
}

TEST(Scheduler, AFinishFreesWhatItHadReserved) {
  Scheduler scheduler(Options(64), Cache(10));
  scheduler.Add(MakeSequence(1, 4, 33, 0));
  scheduler.Add(MakeSequence(2, 4, 29, 50));
  scheduler.Next(kNow, true);
  EXPECT_EQ(scheduler.waiting(), 1u);
  scheduler.Finish(AdmissionId(1), "");
  scheduler.Next(kNow, true);
  EXPECT_EQ(scheduler.waiting(), 0u);
}

TEST(Scheduler, AWaitingSequenceEndsWithoutARank) {
  Scheduler scheduler(Options(64, 16, 1), Cache(10));
  scheduler.Add(MakeSequence(1, 4, 4));
  scheduler.Add(MakeSequence(2, 4, 4));
  scheduler.Next(kNow, true);
  EXPECT_FALSE(scheduler.Finish(AdmissionId(2), ""));
  EXPECT_EQ(scheduler.Find(AdmissionId(2)), nullptr);
  EXPECT_TRUE(scheduler.Finish(AdmissionId(1), ""));
}

TEST(Scheduler, FinishNamesTheLastPlanWithRowsAndComesInTheNextPlan) {
  Scheduler scheduler(Options(64), Cache(10));
  scheduler.Add(MakeSequence(1, 4, 4));
  scheduler.Next(kNow, true);
  scheduler.Next(kNow, true);
  scheduler.Finish(AdmissionId(1), "why");
  const auto plan = scheduler.Next(kNow, true);
  ASSERT_EQ(plan->finishes.size(), 1u);
  EXPECT_EQ(plan->number, PlanNumber(3));
  EXPECT_EQ(plan->finishes[0].last_plan, PlanNumber(2));
  ASSERT_EQ(plan->aborts.size(), 1u);
  EXPECT_EQ(plan->aborts[0].reason, "why");
  EXPECT_TRUE(plan->rows.empty());
}

TEST(Scheduler, OnlyAcceptedTokensAreIndexed) {
  Scheduler scheduler(Options(64), Cache(16));
  scheduler.Add(MakeSequence(1, 6, 20));
  std::vector<Plan> plans;
  for (int i = 0; i < 6; ++i) plans.push_back(*scheduler.Next(kNow, true));
  Complete(&scheduler, plans[0]);  // token 7, position 6
  scheduler.Finish(AdmissionId(1), "");
  // Five more steps ran past the end: positions 6 to 10 hold bytes, one of them of a wanted token.
  for (int i = 1; i < 6; ++i)
    ASSERT_TRUE(scheduler.Complete(Answer(plans[static_cast<size_t>(i)])).ok());
  EXPECT_EQ(scheduler.dropped_tokens(), 5u);
  scheduler.Release(AdmissionId(1));
  EXPECT_EQ(scheduler.cache().indexed_blocks(), 1u);  // positions 0-3; 4-6 do not fill a block
}

TEST(Scheduler, AnAnswerToAnotherQuestionIsAnError) {
  Scheduler scheduler(Options(64), Cache(16));
  scheduler.Add(MakeSequence(1, 6, 20));
  const auto plan = scheduler.Next(kNow, true);
  backend::StepOutput output = Answer(*plan);
  output.step = 2;
  EXPECT_EQ(scheduler.Complete(output).status().code(), StatusCode::kInternal);
  output = Answer(*plan);
  output.rows.clear();
  EXPECT_EQ(scheduler.Complete(output).status().code(), StatusCode::kInternal);
  output = Answer(*plan);
  output.rows[0].position = 9;
  EXPECT_EQ(scheduler.Complete(output).status().code(), StatusCode::kInternal);
}

// Any mix of sizes drains: what is admitted can always finish, so nothing deadlocks.
TEST(Scheduler, ANearlyFullPoolNeverDeadlocks) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    Rng rng(seed);
    const auto blocks = static_cast<uint32_t>(2 + rng.Below(12));
    Scheduler scheduler(Options(static_cast<uint32_t>(1 + rng.Below(9))), Cache(blocks));
    const uint64_t count = 30;
    for (uint64_t id = 1; id <= count; ++id) {
      const auto positions = static_cast<uint32_t>(1 + rng.Below(blocks * 4));
      const auto prompt = static_cast<uint32_t>(1 + rng.Below(positions));
      scheduler.Add(
          MakeSequence(id, prompt, positions - prompt + 1, static_cast<int32_t>(rng.Below(2))));
    }
    uint64_t finished = 0;
    for (int step = 0; step < 20000 && finished < count; ++step) {
      const auto plan = scheduler.Next(kNow, true);
      if (plan.has_value() && !plan->rows.empty()) Complete(&scheduler, *plan);
      for (uint64_t id = 1; id <= count; ++id) {
        const Sequence* sequence = scheduler.Find(AdmissionId(id));
        if (sequence == nullptr || sequence->state != SequenceState::kRunning) continue;
        if (sequence->wants_more() || sequence->unread > 0) continue;
        scheduler.Finish(AdmissionId(id), "");
        scheduler.Release(AdmissionId(id));
        ++finished;
      }
    }
    ASSERT_EQ(finished, count) << "seed " << seed;
    EXPECT_EQ(scheduler.cache().counts().used, 0u);
  }
}

}  // namespace
}  // namespace baton::engine
