// The engine turn by turn: same tokens under every kind of lateness, nothing leaked, nothing stuck.
#include "src/engine/engine_core.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "src/base/rng.h"
#include "src/engine/testing/harness.h"

namespace baton::engine {
namespace {

using testing::Harness;
using testing::HarnessOptions;
using testing::TinyExpected;
using testing::TinyOptions;

std::vector<int32_t> RandomTokens(Rng* rng, size_t count, uint64_t values = 59) {
  std::vector<int32_t> tokens(count);
  for (int32_t& token : tokens) token = static_cast<int32_t>(rng->Below(values));
  return tokens;
}

ExecRequest MakeRequest(std::vector<int32_t> prompt, uint32_t max_tokens) {
  ExecRequest request;
  request.prompt = std::move(prompt);
  request.max_tokens = max_tokens;
  return request;
}

std::vector<int32_t> Expected(const HarnessOptions& options, const ExecRequest& request) {
  return TinyExpected(options.tiny, request.prompt, request.max_tokens, request.sampling,
                      request.end_ids, std::nullopt)
      .tokens;
}

TEST(EngineCore, ARequestGivesTheModelsTokens) {
  const HarnessOptions options;
  Harness harness(options);
  Rng rng(1);
  ExecRequest request = MakeRequest(RandomTokens(&rng, 10), 20);
  request.logprobs = 2;
  const ExecId id = harness.Add(request);
  ASSERT_TRUE(harness.Drain());
  const ExecResponse* final = harness.Final(id);
  ASSERT_NE(final, nullptr);
  const auto run = TinyExpected(options.tiny, request.prompt, 20, request.sampling, {}, 2);
  EXPECT_EQ(final->tokens, run.tokens);
  EXPECT_EQ(final->logprobs, run.logprobs);
  EXPECT_EQ(final->finish, wire::FinishReason::kLength);
  EXPECT_EQ(final->prompt_tokens, 10u);
  EXPECT_EQ(harness.Leaks(), "");
  EXPECT_EQ(harness.responses[id].size(), 1u);
}

TEST(EngineCore, AnEndIdEndsTheRequestAndTokensBehindItAreDropped) {
  uint64_t dropped = 0;
  for (uint32_t ahead = 0; ahead <= 2; ++ahead) {
    HarnessOptions options;
    options.exec.steps_ahead = ahead;
    options.delay = 2;
    Harness harness(options);
    Rng rng(2);
    ExecRequest request = MakeRequest(RandomTokens(&rng, 6), 30);
    request.end_ids = {Expected(options, request)[4]};
    const std::vector<int32_t> expected = Expected(options, request);
    ASSERT_LE(expected.size(), 5u);
    const ExecId id = harness.Add(request);
    ASSERT_TRUE(harness.Drain());
    EXPECT_EQ(harness.Final(id)->tokens, expected);
    EXPECT_EQ(harness.Final(id)->finish, wire::FinishReason::kEnd);
    EXPECT_LE(harness.core->scheduler().dropped_tokens(), ahead);
    EXPECT_EQ(harness.Leaks(), "");
    dropped += harness.core->scheduler().dropped_tokens();
  }
  EXPECT_GT(dropped, 0u);
}

TEST(EngineCore, ABackendThatComputesInSubmitNeverRunsAheadForNothing) {
  HarnessOptions options;
  options.exec.steps_ahead = 2;
  Harness harness(options);
  Rng rng(2);
  ExecRequest request = MakeRequest(RandomTokens(&rng, 6), 30);
  request.end_ids = {Expected(options, request)[4]};
  harness.Add(request);
  ASSERT_TRUE(harness.Drain());
  EXPECT_EQ(harness.core->scheduler().dropped_tokens(), 0u);
}

TEST(EngineCore, AStreamGivesATokenAtATime) {
  const HarnessOptions options;
  Harness harness(options);
  ExecRequest request = MakeRequest({1, 2, 3}, 5);
  request.stream = true;
  const ExecId id = harness.Add(request);
  ASSERT_TRUE(harness.Drain());
  EXPECT_EQ(harness.responses[id].size(), 5u);
  EXPECT_EQ(harness.Tokens(id), Expected(options, request));
}

TEST(EngineCore, ARepeatedPromptIsNotComputedAgain) {
  HarnessOptions options;
  Harness harness(options);
  Rng rng(3);
  const ExecRequest request = MakeRequest(RandomTokens(&rng, 21), 4);
  const ExecId first = harness.Add(request);
  ASSERT_TRUE(harness.Drain());
  const uint64_t computed = harness.tiny[0]->computed_tokens();
  const ExecId second = harness.Add(request);
  ASSERT_TRUE(harness.Drain());
  EXPECT_EQ(harness.Final(first)->cached_tokens, 0u);
  EXPECT_EQ(harness.Final(second)->cached_tokens, 20u);
  EXPECT_EQ(harness.tiny[0]->computed_tokens() - computed, 4u);  // the last of the prompt, 3 more
  EXPECT_EQ(harness.Final(second)->tokens, harness.Final(first)->tokens);
  EXPECT_EQ(harness.core->stats().cache_hit_tokens, 20u);
}

TEST(EngineCore, AnotherSaltSharesNothing) {
  Harness harness{HarnessOptions()};
  Rng rng(3);
  ExecRequest request = MakeRequest(RandomTokens(&rng, 21), 4);
  harness.Add(request);
  ASSERT_TRUE(harness.Drain());
  request.cache_salt = "other";
  const ExecId second = harness.Add(request);
  ASSERT_TRUE(harness.Drain());
  EXPECT_EQ(harness.Final(second)->cached_tokens, 0u);
}

TEST(EngineCore, ALateRequestSharesThePromptOfOneThatStillRuns) {
  Harness harness{HarnessOptions()};
  Rng rng(4);
  const ExecRequest request = MakeRequest(RandomTokens(&rng, 17), 40);
  harness.Add(request);
  for (int i = 0; i < 4; ++i) harness.Turn();
  const ExecId second = harness.Add(request);
  harness.Turn();
  harness.Turn();
  EXPECT_EQ(harness.core->stats().running, 2u);
  ASSERT_TRUE(harness.Drain());
  EXPECT_EQ(harness.Final(second)->cached_tokens, 16u);
  EXPECT_EQ(harness.Final(second)->tokens, Expected(harness.options, request));
}

// ------------------------------------------------------------------------------- property

struct Wish {
  ExecId id = 0;
  ExecRequest request;
  bool cancelled = false;
};

ExecRequest RandomRequest(Rng* rng, const std::vector<std::vector<int32_t>>& beginnings,
                          MonoTime now) {
  std::vector<int32_t> prompt = beginnings[rng->Below(beginnings.size())];
  const auto more = RandomTokens(rng, 1 + rng->Below(12), 3);
  prompt.insert(prompt.end(), more.begin(), more.end());
  ExecRequest request = MakeRequest(prompt, static_cast<uint32_t>(1 + rng->Below(20)));
  if (rng->Chance(0.4)) {
    request.sampling.temperature = 0.8F;
    request.sampling.seed = rng->Next();
    request.sampling.frequency_penalty = 0.3F;
  }
  if (rng->Chance(0.5)) request.end_ids = RandomTokens(rng, 4);
  if (rng->Chance(0.3)) request.stream = true;
  if (rng->Chance(0.15)) request.deadline = now + Millis(rng->Below(40));
  if (rng->Chance(0.2)) request.cache_salt = "salt";
  return request;
}

void ExpectRightEnd(const Harness& harness, const Wish& wish, const std::string& where) {
  const ExecResponse* final = harness.Final(wish.id);
  ASSERT_NE(final, nullptr) << where;
  const std::vector<int32_t> expected = Expected(harness.options, wish.request);
  const std::vector<int32_t> tokens = harness.Tokens(wish.id);
  ASSERT_LE(tokens.size(), expected.size()) << where;
  EXPECT_TRUE(std::equal(tokens.begin(), tokens.end(), expected.begin())) << where;
  const auto finals =
      std::count_if(harness.responses.at(wish.id).begin(), harness.responses.at(wish.id).end(),
                    [](const ExecResponse& response) { return response.final; });
  EXPECT_EQ(finals, 1) << where;
  switch (final->finish) {
    case wire::FinishReason::kEnd:
    case wire::FinishReason::kLength:
      EXPECT_EQ(tokens.size(), expected.size()) << where;
      break;
    case wire::FinishReason::kCancelled:
      EXPECT_TRUE(wish.cancelled) << where;
      break;
    case wire::FinishReason::kExpired:
      EXPECT_NE(wish.request.deadline, MonoTime::Max()) << where;
      break;
    default:
      ADD_FAILURE() << where << ": finish " << static_cast<int>(final->finish);
  }
}

void RunRandomTraffic(const HarnessOptions& options, const std::string& where) {
  Harness harness(options);
  Rng rng(options.seed);
  std::vector<std::vector<int32_t>> beginnings;
  for (int i = 0; i < 3; ++i) beginnings.push_back(RandomTokens(&rng, 4 * i + rng.Below(12)));
  std::vector<Wish> wishes;
  for (int turn = 0; turn < 120; ++turn) {
    if (wishes.size() < 25 && rng.Chance(0.3)) {
      Wish wish;
      wish.request = RandomRequest(&rng, beginnings, harness.clock->Now());
      wish.id = harness.Add(wish.request);
      wishes.push_back(std::move(wish));
    }
    if (!wishes.empty() && rng.Chance(0.06)) {
      Wish& wish = wishes[rng.Below(wishes.size())];
      wish.cancelled = wish.cancelled || harness.Final(wish.id) == nullptr;
      harness.Cancel(wish.id);
    }
    if (rng.Chance(0.2)) harness.clock->Advance(Millis(1));
    harness.Turn();
    ASSERT_TRUE(harness.core->health().ok()) << where << harness.core->health().ToString();
  }
  ASSERT_TRUE(harness.Drain()) << where << ": stuck";
  ASSERT_TRUE(harness.core->health().ok()) << where << harness.core->health().ToString();
  for (const Wish& wish : wishes) ExpectRightEnd(harness, wish, where);
  EXPECT_EQ(harness.Leaks(), "") << where;
}

// steps_ahead x delay x prefix cache x ranks; small pools, small budgets, cancels and deadlines.
class RandomTraffic : public ::testing::TestWithParam<std::tuple<uint32_t, uint32_t, bool>> {};

TEST_P(RandomTraffic, GivesTheModelsTokensAndLeaksNothing) {
  const auto [ahead, delay, prefix_cache] = GetParam();
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    HarnessOptions options;
    Rng rng(seed * 1000 + ahead * 100 + delay * 10 + (prefix_cache ? 1 : 0));
    options.seed = rng.Next();
    options.delay = delay;
    options.ranks = static_cast<uint32_t>(1 + rng.Below(3));
    options.exec.steps_ahead = ahead;
    options.exec.prefix_cache = prefix_cache;
    options.exec.running_max = static_cast<uint32_t>(1 + rng.Below(12));
    options.exec.step_tokens_max = static_cast<uint32_t>(1 + rng.Below(20));
    options.tiny.blocks = static_cast<uint32_t>(16 + rng.Below(30));
    options.tiny.limits.rows_max = static_cast<uint32_t>(1 + rng.Below(8));
    RunRandomTraffic(options, "seed " + std::to_string(seed));
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Lateness, RandomTraffic,
                         ::testing::Combine(::testing::Values(0, 1, 2), ::testing::Values(0, 1, 2),
                                            ::testing::Bool()));

// ------------------------------------------------------------------------------- ends

TEST(EngineCore, FiveHundredCancelsAtOnceGiveFiveHundredEndsAndAllBlocks) {
  HarnessOptions options;
  options.delay = 2;
  Harness harness(options);
  Rng rng(5);
  std::vector<ExecId> ids;
  for (int i = 0; i < 500; ++i) ids.push_back(harness.Add(MakeRequest(RandomTokens(&rng, 9), 30)));
  for (int i = 0; i < 10; ++i) harness.Turn();
  for (const ExecId id : ids) harness.Cancel(id);
  for (const ExecId id : ids) {
    ASSERT_NE(harness.Final(id), nullptr);
    EXPECT_EQ(harness.Final(id)->finish, wire::FinishReason::kCancelled);
  }
  const ExecRequest next = MakeRequest(RandomTokens(&rng, 9), 10);
  const ExecId id = harness.Add(next);
  ASSERT_TRUE(harness.Drain());
  EXPECT_EQ(harness.Final(id)->tokens, Expected(options, next));
  EXPECT_EQ(harness.Leaks(), "");
}

TEST(EngineCore, APoolThatHoldsOneLongRequestServesManyOneAfterTheOther) {
  HarnessOptions options;
  options.tiny.blocks = 10;  // 40 positions
  options.delay = 1;
  Harness harness(options);
  Rng rng(6);
  std::vector<std::pair<ExecId, ExecRequest>> wishes;
  for (int i = 0; i < 12; ++i) {
    ExecRequest request = MakeRequest(RandomTokens(&rng, 30), 11);  // 40 positions: all of it
    wishes.emplace_back(harness.Add(request), request);
  }
  ASSERT_TRUE(harness.Drain());
  for (const auto& [id, request] : wishes) {
    EXPECT_EQ(harness.Final(id)->tokens, Expected(options, request));
  }
  EXPECT_EQ(harness.Leaks(), "");
}

TEST(EngineCore, ASequenceWithoutAFiniteLogitEndsAloneAndIsNotShared) {
  const HarnessOptions options;
  Harness harness(options);
  ExecRequest bad = MakeRequest(std::vector<int32_t>(9, 1), 8);
  bad.prompt[2] = testing::PoisonToken(options.tiny);
  const ExecRequest good = MakeRequest(std::vector<int32_t>(9, 2), 8);
  const ExecId bad_id = harness.Add(bad);
  const ExecId good_id = harness.Add(good);
  ASSERT_TRUE(harness.Drain());
  ASSERT_TRUE(harness.core->health().ok());
  ASSERT_TRUE(harness.Final(bad_id)->error.has_value());
  EXPECT_EQ(harness.Final(bad_id)->error->code, StatusCode::kInternal);
  EXPECT_EQ(harness.Final(good_id)->tokens, Expected(options, good));
  EXPECT_EQ(harness.Leaks(), "");
  const ExecId again = harness.Add(bad);
  ASSERT_TRUE(harness.Drain());
  EXPECT_EQ(harness.Final(again)->cached_tokens, 0u);
}

TEST(EngineCore, ADeadlineEndsWhatWaitsAndWhatRuns) {
  HarnessOptions options;
  options.exec.running_max = 1;
  Harness harness(options);
  ExecRequest request = MakeRequest({1, 2, 3}, 200);
  request.deadline = harness.clock->Now() + Millis(5);
  const ExecId running = harness.Add(request);
  const ExecId waiting = harness.Add(request);
  for (int i = 0; i < 5; ++i) harness.Turn();
  harness.clock->Advance(Millis(5));
  harness.Turn();
  EXPECT_EQ(harness.Final(running)->finish, wire::FinishReason::kExpired);
  EXPECT_FALSE(harness.Final(running)->tokens.empty());
  EXPECT_EQ(harness.Final(waiting)->finish, wire::FinishReason::kExpired);
  EXPECT_TRUE(harness.Final(waiting)->tokens.empty());
  ASSERT_TRUE(harness.Drain());
  EXPECT_EQ(harness.Leaks(), "");
}

TEST(EngineCore, ALostBackendGivesEveryRequestAnError) {
  HarnessOptions options;
  options.exec.running_max = 1;
  options.tiny.fail_at_step = 4;
  Harness harness(options);
  const ExecId running = harness.Add(MakeRequest({1, 2, 3}, 20));
  const ExecId waiting = harness.Add(MakeRequest({1, 2, 3}, 20));
  for (int i = 0; i < 30; ++i) harness.Turn();
  EXPECT_FALSE(harness.core->health().ok());
  for (const ExecId id : {running, waiting}) {
    ASSERT_NE(harness.Final(id), nullptr);
    ASSERT_TRUE(harness.Final(id)->error.has_value());
    EXPECT_EQ(harness.Final(id)->error->code, StatusCode::kUnavailable);
    EXPECT_NE(harness.Final(id)->error->message.find("the device is gone"), std::string::npos);
  }
}

TEST(EngineCore, AStepThatNeverEndsLosesTheEngineByName) {
  HarnessOptions options;
  options.ranks = 2;
  Harness harness(options);
  harness.delayed[1]->Hang();
  const ExecId id = harness.Add(MakeRequest({1, 2, 3}, 20));
  for (int i = 0; i < 5; ++i) harness.Turn();
  EXPECT_TRUE(harness.core->health().ok());
  harness.clock->Advance(options.exec.step_deadline);
  harness.Turn();
  EXPECT_NE(harness.core->health().message().find("not reported by rank 1"), std::string::npos);
  EXPECT_TRUE(harness.Final(id)->error.has_value());
}

// ------------------------------------------------------------------------------- ranks

TEST(EngineCore, NoBlockComesBackBeforeTheLastVote) {
  HarnessOptions options;
  options.ranks = 3;
  Harness harness(options);
  harness.ranks->slow_votes = {1};
  const ExecId id = harness.Add(MakeRequest({1, 2, 3, 4, 5}, 4));
  for (int i = 0; i < 30; ++i) harness.Turn();
  ASSERT_NE(harness.Final(id), nullptr);  // the answer does not wait
  EXPECT_EQ(harness.core->stats().blocks_used, 2u);
  harness.ranks->slow_votes.clear();
  ASSERT_TRUE(harness.Drain());
  EXPECT_EQ(harness.Leaks(), "");
}

TEST(EngineCore, AMissingVoteIsNamedAndThenLosesTheEngine) {
  HarnessOptions options;
  options.ranks = 3;
  Harness harness(options);
  harness.ranks->mute_votes = {2};
  harness.Add(MakeRequest({1, 2, 3}, 4));
  for (int i = 0; i < 30; ++i) harness.Turn();
  harness.clock->Advance(options.exec.vote_deadline);
  harness.Turn();
  EXPECT_TRUE(harness.core->health().ok());  // late is logged
  harness.clock->Advance(options.exec.vote_deadline);
  harness.Turn();
  const std::string& message = harness.core->health().message();
  EXPECT_NE(message.find("release vote of rank 2 for request 1"), std::string::npos) << message;
  EXPECT_NE(message.find("10000 ms"), std::string::npos) << message;
}

TEST(EngineCore, ASlowStepIsNoLateVote) {
  HarnessOptions options;
  Harness harness(options);
  const ExecId id = harness.Add(MakeRequest({1, 2, 3}, 20));
  harness.Turn();
  harness.delayed[0]->Hang();  // for longer than any vote may take
  for (int i = 0; i < 5; ++i) harness.Turn();
  harness.Cancel(id);
  harness.Turn();
  harness.clock->Advance(3 * options.exec.vote_deadline);
  harness.Turn();
  EXPECT_TRUE(harness.core->health().ok()) << harness.core->health().ToString();
}

TEST(EngineCore, RanksThatDivergeAreNamedWithBothValues) {
  HarnessOptions options;
  options.ranks = 2;
  Harness harness(options);
  harness.ranks->wrong_digest = {1};
  const ExecId id = harness.Add(MakeRequest({1, 2, 3}, 4));
  for (int i = 0; i < 10; ++i) harness.Turn();
  const std::string& message = harness.core->health().message();
  EXPECT_NE(message.find("diverged at plan 1: rank 0 executed "), std::string::npos) << message;
  EXPECT_NE(message.find(", rank 1 executed "), std::string::npos) << message;
  EXPECT_TRUE(harness.Final(id)->error.has_value());
}

}  // namespace
}  // namespace baton::engine
