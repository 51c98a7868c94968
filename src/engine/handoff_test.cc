// Two engines and the way between them: a context request's KV reaches the generation engine, or
// the request ends with an error; blocks come back on both sides in every case.
#include <gtest/gtest.h>

#include <algorithm>

#include "src/base/rng.h"
#include "src/engine/testing/harness.h"

namespace baton::engine {
namespace {

using testing::Harness;
using testing::HarnessOptions;
using testing::MemoryFabric;
using testing::TinyExpected;

struct Pair {
  explicit Pair(HarnessOptions options) {
    options.fabric = &fabric;
    options.clock = &clock;
    options.instance = "context";
    context = std::make_unique<Harness>(options);
    options.instance = "generation";
    options.seed += 1000;
    generation = std::make_unique<Harness>(options);
  }

  void Turn() {
    context->Turn();
    generation->Turn();
  }
  bool Drain(int turns_max = 20000) {
    for (int turn = 0; turn < turns_max; ++turn) {
      Turn();
      if (context->core->idle() && generation->core->idle()) return true;
    }
    return false;
  }
  // Turns until the request has its final response.
  const ExecResponse* Await(Harness* harness, ExecId id, int turns_max = 5000) {
    for (int turn = 0; turn < turns_max && harness->Final(id) == nullptr; ++turn) Turn();
    return harness->Final(id);
  }
  // The context phase of `request`; its answer.
  ExecResponse Context(ExecRequest request) {
    request.kind = wire::RequestKind::kContextOnly;
    const ExecResponse* response = Await(context.get(), context->Add(std::move(request)));
    CHECK(response != nullptr, "the context phase does not end");
    return *response;
  }

  MemoryFabric fabric;
  ManualClock clock;
  std::unique_ptr<Harness> context;
  std::unique_ptr<Harness> generation;
};

ExecRequest MakeRequest(std::vector<int32_t> prompt, uint32_t max_tokens) {
  ExecRequest request;
  request.prompt = std::move(prompt);
  request.max_tokens = max_tokens;
  return request;
}

std::vector<int32_t> Prompt(size_t count, int32_t salt) {
  std::vector<int32_t> tokens(count);
  for (size_t i = 0; i < count; ++i) {
    tokens[i] = static_cast<int32_t>((i * 7 + static_cast<size_t>(salt) * 13) % 59);
  }
  return tokens;
}

ExecRequest Generation(ExecRequest request, const ExecResponse& context) {
  request.kind = wire::RequestKind::kGenerationOnly;
  request.handoff = context.handoff;
  request.first_tokens = context.tokens;
  request.first_logprobs = context.logprobs;
  return request;
}

std::vector<int32_t> Expected(const ExecRequest& request) {
  return TinyExpected({}, request.prompt, request.max_tokens, request.sampling, request.end_ids,
                      std::nullopt)
      .tokens;
}

TEST(Handoff, ASplitRunGivesWhatAnUnsplitRunGives) {
  Pair pair{HarnessOptions()};
  ExecRequest request = MakeRequest(Prompt(18, 1), 12);
  request.sampling.temperature = 0.9F;
  request.sampling.seed = 11;
  request.sampling.presence_penalty = 0.5F;
  request.logprobs = 1;
  const ExecResponse context = pair.Context(request);
  ASSERT_TRUE(context.handoff.has_value());
  EXPECT_EQ(context.finish, wire::FinishReason::kNone);
  EXPECT_EQ(context.tokens.size(), 1u);
  EXPECT_EQ(context.handoff->tokens, 18u);
  EXPECT_EQ(context.handoff->blocks.size(), 5u);
  EXPECT_EQ(context.handoff->block_hashes.size(), 4u);
  EXPECT_EQ(context.handoff->block_hashes[0].size(), 16u);
  ASSERT_EQ(context.handoff->endpoints.size(), 1u);
  EXPECT_EQ(context.handoff->endpoints[0].endpoint, "memory:context/0");

  const ExecId id = pair.generation->Add(Generation(request, context));
  const ExecResponse* final = pair.Await(pair.generation.get(), id);
  ASSERT_NE(final, nullptr);
  const auto run = TinyExpected({}, request.prompt, 12, request.sampling, {}, 1);
  EXPECT_EQ(final->tokens, run.tokens);
  EXPECT_EQ(final->logprobs, run.logprobs);
  ASSERT_TRUE(pair.Drain());
  EXPECT_EQ(pair.context->Leaks(), "");
  EXPECT_EQ(pair.generation->Leaks(), "");
  EXPECT_EQ(pair.generation->blocks_moved(), 5u);
}

TEST(Handoff, BlocksStayUntilTheLeaseEndsAndAreCachedAfterIt) {
  Pair pair{HarnessOptions()};
  const ExecRequest request = MakeRequest(Prompt(18, 1), 12);
  const ExecResponse context = pair.Context(request);
  for (int i = 0; i < 50; ++i) pair.Turn();
  EXPECT_EQ(pair.context->core->stats().blocks_used, 5u);
  EXPECT_EQ(pair.context->core->stats().leases_open, 1u);
  pair.generation->Add(Generation(request, context));
  ASSERT_TRUE(pair.Drain());
  EXPECT_EQ(pair.context->core->stats().blocks_cached, 4u);
  EXPECT_EQ(pair.Context(request).cached_tokens, 16u);
}

TEST(Handoff, AnOfferThatNobodyTakesEndsOnTimeThoughTheEngineIsIdle) {
  HarnessOptions options;
  Pair pair{options};
  pair.Context(MakeRequest(Prompt(18, 1), 12));
  EXPECT_FALSE(pair.context->core->idle());
  pair.clock.Advance(options.exec.offer_timeout);
  ASSERT_TRUE(pair.Drain());
  EXPECT_EQ(pair.context->Leaks(), "");
}

TEST(Handoff, AWithdrawnLeaseGivesItsBlocksBackAndIsRefused) {
  Pair pair{HarnessOptions()};
  const ExecRequest request = MakeRequest(Prompt(18, 1), 12);
  const ExecResponse context = pair.Context(request);
  pair.context->core->WithdrawLease(context.handoff->lease, "not needed");
  pair.context->core->WithdrawLease(context.handoff->lease, "not needed");
  pair.context->core->WithdrawLease(4711, "unknown");
  ASSERT_TRUE(pair.Drain());
  EXPECT_EQ(pair.context->Leaks(), "");
  const ExecId id = pair.generation->Add(Generation(request, context));
  const ExecResponse* final = pair.Await(pair.generation.get(), id);
  ASSERT_NE(final, nullptr);
  ASSERT_TRUE(final->error.has_value());
  EXPECT_EQ(final->error->code, StatusCode::kUnavailable);
  EXPECT_NE(final->error->message.find("not needed"), std::string::npos);
  EXPECT_TRUE(final->tokens.empty());  // never decoded from it
  ASSERT_TRUE(pair.Drain());
  EXPECT_EQ(pair.generation->Leaks(), "");
}

TEST(Handoff, ARequestThatEndsWithItsFirstTokenHandsNothingOver) {
  Pair pair{HarnessOptions()};
  ExecRequest request = MakeRequest(Prompt(18, 1), 1);
  ExecResponse response = pair.Context(request);
  EXPECT_EQ(response.finish, wire::FinishReason::kLength);
  EXPECT_FALSE(response.handoff.has_value());
  request.max_tokens = 10;
  request.end_ids = {response.tokens[0]};
  response = pair.Context(request);
  EXPECT_EQ(response.finish, wire::FinishReason::kEnd);
  EXPECT_FALSE(response.handoff.has_value());
  request.stop_tokens = std::exchange(request.end_ids, {});
  response = pair.Context(request);
  EXPECT_EQ(response.finish, wire::FinishReason::kStop);
  ASSERT_TRUE(pair.Drain());
  EXPECT_EQ(pair.context->Leaks(), "");
}

TEST(Handoff, BlocksThatTheReceiverHoldsAreNotSentAgain) {
  Pair pair{HarnessOptions()};
  const ExecRequest request = MakeRequest(Prompt(18, 1), 12);
  pair.generation->Add(Generation(request, pair.Context(request)));
  ASSERT_TRUE(pair.Drain());
  EXPECT_EQ(pair.generation->blocks_moved(), 5u);
  const ExecId id = pair.generation->Add(Generation(request, pair.Context(request)));
  ASSERT_TRUE(pair.Drain());
  EXPECT_EQ(pair.generation->blocks_moved(), 6u);  // the last block alone
  EXPECT_EQ(pair.generation->Final(id)->cached_tokens, 16u);
  EXPECT_EQ(pair.generation->Final(id)->tokens, Expected(request));
}

TEST(Handoff, AFailedFetchIsARetryableErrorAndItsBytesAreNeverShared) {
  Pair pair{HarnessOptions()};
  pair.fabric.cut_every = 1;
  const ExecRequest request = MakeRequest(Prompt(18, 1), 12);
  const ExecId id = pair.generation->Add(Generation(request, pair.Context(request)));
  const ExecResponse* final = pair.Await(pair.generation.get(), id);
  ASSERT_NE(final, nullptr);
  ASSERT_TRUE(final->error.has_value());
  EXPECT_EQ(final->error->code, StatusCode::kUnavailable);
  EXPECT_NE(final->error->message.find("cut in the middle"), std::string::npos);
  ASSERT_TRUE(pair.Drain());
  EXPECT_EQ(pair.generation->core->stats().blocks_cached, 0u);
  EXPECT_EQ(pair.generation->Leaks(), "");
  EXPECT_EQ(pair.context->Leaks(), "");
}

TEST(Handoff, APrefixWhoseBytesAreStillArrivingIsNotUsed) {
  Pair pair{HarnessOptions()};
  const ExecRequest request = MakeRequest(Prompt(18, 1), 12);
  const ExecResponse context = pair.Context(request);
  pair.fabric.stalled = true;
  pair.generation->Add(Generation(request, context));
  for (int i = 0; i < 10; ++i) pair.Turn();
  EXPECT_EQ(pair.generation->core->stats().fetches_open, 1u);
  // The same prompt as a full request: it computes by itself.
  const ExecId id = pair.generation->Add(request);
  const ExecResponse* final = pair.Await(pair.generation.get(), id);
  ASSERT_NE(final, nullptr);
  EXPECT_EQ(final->cached_tokens, 0u);
  EXPECT_EQ(final->tokens, Expected(request));
  pair.fabric.stalled = false;
  ASSERT_TRUE(pair.Drain());
  EXPECT_EQ(pair.generation->Leaks(), "");
}

TEST(Handoff, AStalledTransferEndsByItsDeadlineOnBothSides) {
  HarnessOptions options;
  Pair pair{options};
  const ExecRequest request = MakeRequest(Prompt(18, 1), 12);
  const ExecResponse context = pair.Context(request);
  const ExecId id = pair.generation->Add(Generation(request, context));
  for (int i = 0; i < 3; ++i) pair.Turn();
  pair.fabric.stalled = true;
  pair.clock.Advance(options.exec.offer_timeout + options.exec.transfer_timeout);
  const ExecResponse* final = pair.Await(pair.generation.get(), id, 10);
  ASSERT_NE(final, nullptr);
  EXPECT_EQ(final->error->code, StatusCode::kUnavailable);
  ASSERT_TRUE(pair.Drain());
  EXPECT_EQ(pair.generation->Leaks(), "");
  EXPECT_EQ(pair.context->Leaks(), "");
}

TEST(Handoff, CancelDuringATransferGivesOneEndAndAllBlocksOnBothSides) {
  Pair pair{HarnessOptions()};
  const ExecRequest request = MakeRequest(Prompt(18, 1), 12);
  const ExecId id = pair.generation->Add(Generation(request, pair.Context(request)));
  for (int i = 0; i < 4; ++i) pair.Turn();
  EXPECT_EQ(pair.generation->core->stats().fetches_open, 1u);
  pair.generation->Cancel(id);
  EXPECT_EQ(pair.generation->Final(id)->finish, wire::FinishReason::kCancelled);
  ASSERT_TRUE(pair.Drain());
  EXPECT_EQ(pair.generation->Leaks(), "");
  EXPECT_EQ(pair.context->Leaks(), "");
  EXPECT_EQ(pair.generation->core->stats().blocks_cached, 0u);
}

TEST(Handoff, ACancelBeforeTheOfferIsConfirmedHandsNothingOver) {
  HarnessOptions options;
  options.ranks = 2;
  Pair pair{options};
  pair.context->ranks->slow_votes = {1};
  ExecRequest request = MakeRequest(Prompt(18, 1), 12);
  request.kind = wire::RequestKind::kContextOnly;
  const ExecId id = pair.context->Add(request);
  for (int i = 0; i < 10; ++i) pair.Turn();
  EXPECT_EQ(pair.context->Final(id), nullptr);
  EXPECT_EQ(pair.context->core->stats().leases_open, 1u);
  pair.context->Cancel(id);
  EXPECT_EQ(pair.context->Final(id)->finish, wire::FinishReason::kCancelled);
  EXPECT_FALSE(pair.context->Final(id)->handoff.has_value());
  pair.context->ranks->slow_votes.clear();
  ASSERT_TRUE(pair.Drain());
  EXPECT_EQ(pair.context->Leaks(), "");
}

TEST(Handoff, AnOfferThatARankRefusesIsARetryableError) {
  HarnessOptions options;
  options.ranks = 2;
  Pair pair{options};
  pair.context->sources[1]->RefuseOffers(true);
  const ExecResponse response = pair.Context(MakeRequest(Prompt(18, 1), 12));
  ASSERT_TRUE(response.error.has_value());
  EXPECT_EQ(response.error->code, StatusCode::kUnavailable);
  EXPECT_NE(response.error->message.find("rank 1: too many leases"), std::string::npos);
  EXPECT_FALSE(response.handoff.has_value());
  ASSERT_TRUE(pair.Drain());
  EXPECT_EQ(pair.context->Leaks(), "");
}

TEST(Handoff, OneRanksFailureFailsThePairAndAbortsTheOthers) {
  HarnessOptions options;
  options.ranks = 3;
  Pair pair{options};
  const ExecRequest request = MakeRequest(Prompt(18, 1), 12);
  ExecResponse context = pair.Context(request);
  context.handoff->endpoints[1].endpoint = "memory:nowhere";
  const ExecId id = pair.generation->Add(Generation(request, context));
  const ExecResponse* final = pair.Await(pair.generation.get(), id, 3);
  ASSERT_NE(final, nullptr);  // at once: nobody waits for the other ranks' bytes
  EXPECT_NE(final->error->message.find("rank 1: the owner is away"), std::string::npos);
  for (int i = 0; i < 200; ++i) pair.Turn();
  EXPECT_TRUE(pair.generation->core->idle());  // their fetches were aborted, not waited for
  pair.clock.Advance(options.exec.offer_timeout + options.exec.transfer_timeout);
  ASSERT_TRUE(pair.Drain());
  EXPECT_EQ(pair.generation->Leaks(), "");
  EXPECT_EQ(pair.context->Leaks(), "");
}

TEST(Handoff, LayoutsThatCannotMeetAreTheCallersFault) {
  Pair pair{HarnessOptions()};
  const ExecRequest request = MakeRequest(Prompt(18, 1), 12);
  ExecResponse context = pair.Context(request);
  context.handoff->layout.block_tokens = 8;
  const ExecId id = pair.generation->Add(Generation(request, context));
  const ExecResponse* final = pair.Await(pair.generation.get(), id);
  ASSERT_NE(final, nullptr);
  EXPECT_EQ(final->error->code, StatusCode::kInvalidArgument);
  EXPECT_NE(final->error->message.find("owner 8, receiver 4"), std::string::npos);
  pair.context->core->WithdrawLeases("over");
  ASSERT_TRUE(pair.Drain());
  EXPECT_EQ(pair.generation->Leaks(), "");
}

TEST(Handoff, AnExpiredRequestEndsInTheFetchAsExpired) {
  Pair pair{HarnessOptions()};
  ExecRequest request = MakeRequest(Prompt(18, 1), 12);
  const ExecResponse context = pair.Context(request);
  pair.fabric.stalled = true;
  request.deadline = pair.clock.Now() + Millis(5);
  const ExecId id = pair.generation->Add(Generation(request, context));
  for (int i = 0; i < 5; ++i) pair.Turn();
  pair.clock.Advance(Millis(5));
  const ExecResponse* final = pair.Await(pair.generation.get(), id, 5);
  ASSERT_NE(final, nullptr);
  EXPECT_EQ(final->finish, wire::FinishReason::kExpired);
}

TEST(Handoff, AFirstTokenThatEndsTheGenerationIsNotDecodedOn) {
  Pair pair{HarnessOptions()};
  ExecRequest request = MakeRequest(Prompt(18, 1), 12);
  const ExecResponse context = pair.Context(request);
  request.end_ids = {context.tokens[0]};
  const ExecId id = pair.generation->Add(Generation(request, context));
  const ExecResponse* final = pair.Await(pair.generation.get(), id);
  ASSERT_NE(final, nullptr);
  EXPECT_EQ(final->finish, wire::FinishReason::kEnd);
  EXPECT_EQ(final->tokens, context.tokens);
  ASSERT_TRUE(pair.Drain());
  EXPECT_EQ(pair.generation->Leaks(), "");
}

// ------------------------------------------------------------------------------- property

struct Split {
  ExecRequest request;
  ExecId context = 0;
  ExecId generation = 0;
  bool cancelled = false;
};

void ExpectRightEnd(const Pair& pair, const Split& split, const std::string& where) {
  const ExecResponse* context = pair.context->Final(split.context);
  ASSERT_NE(context, nullptr) << where;
  if (split.generation == 0) return;
  const ExecResponse* final = pair.generation->Final(split.generation);
  ASSERT_NE(final, nullptr) << where;
  const std::vector<int32_t> expected = Expected(split.request);
  ASSERT_LE(final->tokens.size(), expected.size()) << where;
  EXPECT_TRUE(std::equal(final->tokens.begin(), final->tokens.end(), expected.begin())) << where;
  if (final->finish == wire::FinishReason::kError) {
    EXPECT_EQ(final->error->code, StatusCode::kUnavailable) << where;
    EXPECT_TRUE(final->tokens.empty()) << where;
  } else if (final->finish != wire::FinishReason::kCancelled) {
    EXPECT_EQ(final->tokens, expected) << where;
  } else {
    EXPECT_TRUE(split.cancelled) << where;
  }
}

void RunRandomHandoffs(uint64_t seed, uint64_t* completed) {
  Rng rng(seed);
  HarnessOptions options;
  options.seed = rng.Next() % 100000;
  options.delay = static_cast<uint32_t>(rng.Below(3));
  options.ranks = static_cast<uint32_t>(1 + rng.Below(3));
  options.exec.steps_ahead = static_cast<uint32_t>(rng.Below(3));
  options.exec.prefix_cache = rng.Chance(0.7);
  options.exec.step_tokens_max = static_cast<uint32_t>(2 + rng.Below(20));
  options.tiny.blocks = static_cast<uint32_t>(14 + rng.Below(30));
  Pair pair(options);
  if (rng.Chance(0.4)) pair.fabric.cut_every = static_cast<uint32_t>(2 + rng.Below(4));
  const std::string where = "seed " + std::to_string(seed);
  std::vector<Split> splits;
  for (int turn = 0; turn < 250; ++turn) {
    if (splits.size() < 15 && rng.Chance(0.15)) {
      Split split;
      split.request = MakeRequest(Prompt(1 + rng.Below(30), static_cast<int32_t>(rng.Below(3))),
                                  static_cast<uint32_t>(1 + rng.Below(14)));
      split.request.sampling.temperature = rng.Chance(0.5) ? 0.8F : 0.0F;
      split.request.sampling.seed = rng.Next();
      ExecRequest context = split.request;
      context.kind = wire::RequestKind::kContextOnly;
      split.context = pair.context->Add(context);
      splits.push_back(split);
    }
    for (Split& split : splits) {
      const ExecResponse* context = pair.context->Final(split.context);
      if (split.generation != 0 || context == nullptr || !context->handoff.has_value()) continue;
      if (rng.Chance(0.1)) {
        split.generation = pair.generation->Add(Generation(split.request, *context));
      }
    }
    if (!splits.empty() && rng.Chance(0.05)) {
      Split& split = splits[rng.Below(splits.size())];
      if (rng.Chance(0.5)) {
        pair.context->Cancel(split.context);
      } else if (split.generation != 0) {
        split.cancelled = true;
        pair.generation->Cancel(split.generation);
      }
    }
    if (rng.Chance(0.03)) pair.clock.Advance(Millis(1500));
    pair.Turn();
  }
  // What was never asked for ends by its offer's deadline.
  pair.clock.Advance(options.exec.offer_timeout);
  for (int turn = 0; turn < 20000 && !(pair.context->core->idle() && pair.generation->core->idle());
       ++turn) {
    if (turn % 100 == 99) pair.clock.Advance(Millis(500));
    pair.Turn();
  }
  ASSERT_TRUE(pair.context->core->idle() && pair.generation->core->idle()) << where << ": stuck";
  ASSERT_TRUE(pair.context->core->health().ok()) << where;
  ASSERT_TRUE(pair.generation->core->health().ok()) << where;
  for (const Split& split : splits) {
    ExpectRightEnd(pair, split, where);
    if (split.generation != 0 && !pair.generation->Final(split.generation)->error.has_value()) {
      ++*completed;
    }
  }
  EXPECT_EQ(pair.context->Leaks(), "") << where;
  EXPECT_EQ(pair.generation->Leaks(), "") << where;
}

TEST(Handoff, RandomTrafficGivesRightTokensOrAnErrorAndLeaksNothing) {
  uint64_t completed = 0;
  for (uint64_t seed = 1; seed <= 400 && !::testing::Test::HasFailure(); ++seed) {
    RunRandomHandoffs(seed, &completed);
  }
  EXPECT_GT(completed, 1500u);  // the faults did not eat the test
}

}  // namespace
}  // namespace baton::engine
