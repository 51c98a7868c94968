// The executor with its thread, on the real clock: what callers see.
#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <map>
#include <thread>

#include "src/engine/executor_core.h"
#include "src/engine/testing/tiny_backend.h"

namespace baton::engine {
namespace {

using testing::TinyBackend;
using testing::TinyExpected;
using testing::TinyOptions;

constexpr Nanos kLong = std::chrono::seconds(30);

// Spells token t as the letter t % 26 of the alphabet.
class Letters : public TokenDecoder {
 public:
  std::string Push(int32_t token) override { return {static_cast<char>('a' + token % 26)}; }
  std::string Finish() override { return ""; }
};

class ExecutorTest : public ::testing::Test {
 protected:
  std::unique_ptr<Executor> Make(ExecOptions options = {}) {
    ExecutorParts parts;
    parts.clock = &RealClock();
    parts.engine.options = options;
    parts.engine.request_limits = {.vocab = tiny_.vocab,
                                   .context = tiny_.context,
                                   .block_tokens = tiny_.block_tokens,
                                   .blocks = tiny_.blocks,
                                   .has_text = true};
    parts.engine.step_limits = tiny_.limits;
    parts.engine.make_decoder = [] { return std::make_unique<Letters>(); };
    backend_ = std::make_unique<TinyBackend>(tiny_);
    std::vector<LocalRanks::Member> members;
    members.push_back(
        {std::make_unique<RankWorker>(Rank(0), backend_.get(), nullptr, nullptr, &RealClock()),
         ""});
    parts.ranks = std::make_unique<LocalRanks>(std::move(members));
    return MakeExecutor(std::move(parts));
  }

  ExecRequest Request(std::vector<int32_t> prompt, uint32_t max_tokens) {
    ExecRequest request;
    request.prompt = std::move(prompt);
    request.max_tokens = max_tokens;
    return request;
  }

  std::vector<int32_t> Expected(const ExecRequest& request) {
    return TinyExpected(tiny_, request.prompt, request.max_tokens, request.sampling,
                        request.end_ids, std::nullopt)
        .tokens;
  }

  ExecResponse AwaitFinal(Executor* executor, ExecId id) {
    const std::vector<ExecId> ids = {id};
    const auto responses = executor->Await(ids, kLong);
    EXPECT_EQ(responses.size(), 1u);
    return responses.empty() ? ExecResponse() : responses[0];
  }

  TinyOptions tiny_;
  std::unique_ptr<TinyBackend> backend_;
};

TEST_F(ExecutorTest, AnswersOneOfManyAndThenTheOthers) {
  auto executor = Make();
  std::map<ExecId, ExecRequest> wishes;
  for (int32_t i = 0; i < 20; ++i) {
    const ExecRequest request = Request({i, 2, 3}, static_cast<uint32_t>(5 + i));
    wishes[*executor->Enqueue(request)] = request;
  }
  const ExecResponse one = AwaitFinal(executor.get(), 7);
  EXPECT_EQ(one.id, 7u);
  EXPECT_EQ(one.tokens, Expected(wishes[7]));
  wishes.erase(7);
  while (!wishes.empty()) {
    const auto responses = executor->AwaitAny(kLong);
    ASSERT_FALSE(responses.empty());
    for (const ExecResponse& response : responses) {
      EXPECT_TRUE(response.final);
      EXPECT_EQ(response.tokens, Expected(wishes.at(response.id)));
      wishes.erase(response.id);
    }
  }
}

TEST_F(ExecutorTest, AwaitingWhatNeverComesEndsAtTheTimeout) {
  auto executor = Make();
  const std::vector<ExecId> ids = {99};
  EXPECT_TRUE(executor->Await(ids, Millis(1)).empty());
  EXPECT_TRUE(executor->AwaitAny(Millis(1)).empty());
}

TEST_F(ExecutorTest, RequestsThatCanNeverRunAreRefusedWithTheReason) {
  auto executor = Make();
  const auto refused = [&](ExecRequest request) {
    const auto id = executor->Enqueue(std::move(request));
    EXPECT_EQ(id.status().code(), StatusCode::kInvalidArgument);
    return id.status().message();
  };
  const auto has = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  EXPECT_TRUE(has(refused(Request({}, 4)), "prompt is empty"));
  EXPECT_TRUE(has(refused(Request({1}, 0)), "max_tokens"));
  EXPECT_TRUE(has(refused(Request({1, 61}, 4)), "token 61"));
  EXPECT_TRUE(has(refused(Request({-1}, 4)), "token -1"));
  EXPECT_TRUE(has(refused(Request(std::vector<int32_t>(256, 1), 4)), "at most 255"));
  ExecRequest request = Request({1}, 4);
  request.sampling.temperature = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(has(refused(request), "temperature"));
  request.sampling.temperature = 0;
  request.sampling.top_p = 0;
  EXPECT_TRUE(has(refused(request), "top_p"));
  request.sampling.top_p = 1;
  request.stop_strings = {""};
  EXPECT_TRUE(has(refused(request), "stop string"));
  request.stop_strings = {};
  request.kind = wire::RequestKind::kContextOnly;
  EXPECT_TRUE(has(refused(request), "no transport"));
  tiny_.blocks = 4;
  auto small = Make();
  const auto too_long = small->Enqueue(Request({1, 2, 3}, 20));
  EXPECT_TRUE(has(too_long.status().message(), "6 KV blocks of 4 tokens; the pool has 4"));
}

TEST_F(ExecutorTest, MaxTokensBeyondTheModelEndsByLength) {
  auto executor = Make();
  const ExecRequest request = Request(std::vector<int32_t>(250, 5), 1000);
  const ExecResponse response = AwaitFinal(executor.get(), *executor->Enqueue(request));
  EXPECT_EQ(response.tokens.size(), 6u);
  EXPECT_EQ(response.finish, wire::FinishReason::kLength);
}

TEST_F(ExecutorTest, AFullQueueRefuses) {
  ExecOptions options;
  options.queue_max = 2;
  auto executor = Make(options);
  std::vector<ExecId> ids;
  Status refused;
  for (int i = 0; i < 100 && refused.ok(); ++i) {
    const auto id = executor->Enqueue(Request({1, 2, 3}, 240));
    if (id.ok()) ids.push_back(*id);
    refused = id.status();
  }
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
}

TEST_F(ExecutorTest, ResponsesThatNobodyTakesAreBounded) {
  ExecOptions options;
  options.queue_max = 2;
  auto executor = Make(options);
  Status status;
  // Each refusal while the queue is full is not counted: the bound on untaken answers must be hit.
  const MonoTime give_up = RealClock().Now() + kLong;
  while (status.message().find("not taken") == std::string::npos && RealClock().Now() < give_up) {
    status = executor->Enqueue(Request({1}, 1)).status();
  }
  EXPECT_NE(status.message().find("not taken"), std::string::npos) << status.ToString();
  executor->Shutdown(false, Nanos::zero());
  const size_t taken = executor->AwaitAny(kLong).size();
  EXPECT_GE(taken, 8u);  // four times queue_max
  EXPECT_LE(taken, 9u);  // and what ran when the bound was reached
}

TEST_F(ExecutorTest, ACancelledRequestGetsOneFinalAnswer) {
  auto executor = Make();
  const ExecId id = *executor->Enqueue(Request({1, 2, 3}, 250));
  executor->Cancel(id);
  executor->Cancel(id);
  const ExecResponse response = AwaitFinal(executor.get(), id);
  EXPECT_TRUE(response.finish == wire::FinishReason::kCancelled ||
              response.finish == wire::FinishReason::kLength);
  executor->Cancel(id);
  executor->Cancel(12345);
  EXPECT_TRUE(executor->AwaitAny(Millis(1)).empty());
}

TEST_F(ExecutorTest, ADeadlineThatPassedEndsTheRequest) {
  auto executor = Make();
  ExecRequest request = Request({1, 2, 3}, 5);
  request.deadline = RealClock().Now();
  EXPECT_EQ(AwaitFinal(executor.get(), *executor->Enqueue(request)).finish,
            wire::FinishReason::kExpired);
}

TEST_F(ExecutorTest, AStreamAddsUpToTheWhole) {
  auto executor = Make();
  ExecRequest request = Request({4, 5, 6}, 40);
  request.stream = true;
  const ExecId id = *executor->Enqueue(request);
  std::vector<int32_t> tokens;
  std::string text;
  bool final = false;
  while (!final) {
    const ExecResponse response = AwaitFinal(executor.get(), id);
    ASSERT_EQ(response.id, id);
    tokens.insert(tokens.end(), response.tokens.begin(), response.tokens.end());
    text += response.text;
    final = response.final;
  }
  EXPECT_EQ(tokens, Expected(request));
  EXPECT_EQ(text.size(), tokens.size());
}

TEST_F(ExecutorTest, AStopStringEndsTheTextBeforeIt) {
  auto executor = Make();
  ExecRequest request = Request({4, 5, 6}, 30);
  std::string all;
  for (const int32_t token : Expected(request)) all += static_cast<char>('a' + token % 26);
  request.stop_strings = {"nothing like it", all.substr(10, 3)};
  const size_t at = all.find(request.stop_strings[1]);
  const ExecResponse response = AwaitFinal(executor.get(), *executor->Enqueue(request));
  EXPECT_EQ(response.finish, wire::FinishReason::kStop);
  EXPECT_EQ(response.stop_text, request.stop_strings[1]);
  EXPECT_EQ(response.text, all.substr(0, at));
  EXPECT_EQ(response.tokens.size(), at + 3);
}

TEST_F(ExecutorTest, StatsAddUp) {
  auto executor = Make();
  AwaitFinal(executor.get(), *executor->Enqueue(Request({1, 2, 3, 4, 5}, 4)));
  ExecStats stats = executor->stats();
  // The answer does not wait for the release; that comes right behind it.
  const MonoTime give_up = RealClock().Now() + kLong;
  while (stats.blocks_used > 0 && RealClock().Now() < give_up) stats = executor->stats();
  EXPECT_EQ(stats.blocks_used, 0u);
  EXPECT_EQ(stats.blocks_free + stats.blocks_cached, stats.blocks_total);
  EXPECT_EQ(stats.prompt_tokens, 5u);
  EXPECT_EQ(stats.generated_tokens, 4u);
  EXPECT_GE(stats.steps, 4u);
  EXPECT_GE(stats.progress, stats.steps);
  EXPECT_EQ(stats.running, 0u);
}

TEST_F(ExecutorTest, ADrainFinishesWhatRunsAndRefusesMore) {
  auto executor = Make();
  const ExecRequest request = Request({1, 2, 3}, 100);
  const ExecId id = *executor->Enqueue(request);
  executor->Shutdown(true, kLong);
  EXPECT_EQ(executor->Enqueue(request).status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(AwaitFinal(executor.get(), id).tokens, Expected(request));
  EXPECT_TRUE(executor->AwaitAny(kLong).empty());  // at once: nothing can come any more
}

TEST_F(ExecutorTest, AShutdownWithoutDrainCancels) {
  auto executor = Make();
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(executor->Enqueue(Request({1, 2, 3}, 250)).ok());
  executor->Shutdown(false, Nanos::zero());
  executor->Shutdown(true, kLong);
  EXPECT_EQ(executor->AwaitAny(kLong).size(), 10u);
}

TEST_F(ExecutorTest, ALostBackendShowsInHealthAndRefusesMore) {
  tiny_.fail_at_step = 3;
  auto executor = Make();
  const ExecId id = *executor->Enqueue(Request({1, 2, 3}, 20));
  const ExecResponse response = AwaitFinal(executor.get(), id);
  ASSERT_TRUE(response.error.has_value());
  EXPECT_EQ(response.error->code, StatusCode::kUnavailable);
  const MonoTime give_up = RealClock().Now() + kLong;
  while (executor->health().ok() && RealClock().Now() < give_up) std::this_thread::yield();
  EXPECT_FALSE(executor->health().ok());
  EXPECT_EQ(executor->Enqueue(Request({1}, 1)).status().code(), StatusCode::kUnavailable);
}

TEST_F(ExecutorTest, ManyCallersAtOnceGetTheirOwnAnswers) {
  auto executor = Make();
  std::atomic<int> right{0};
  std::vector<std::thread> callers;
  for (int32_t caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&, caller] {
      for (int32_t i = 0; i < 25; ++i) {
        const ExecRequest request = Request({caller, i, 3}, 6);
        const auto id = executor->Enqueue(request);
        if (!id.ok()) continue;
        const std::vector<ExecId> ids = {*id};
        const auto responses = executor->Await(ids, kLong);
        if (responses.size() == 1 && responses[0].tokens == Expected(request)) ++right;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(right, 100);
}

}  // namespace
}  // namespace baton::engine
