// Executor::Create on the real clock, with a hand-off from an instance to itself.
#include <gtest/gtest.h>

#include "src/engine/executor.h"
#include "src/engine/testing/memory_transport.h"
#include "src/engine/testing/tiny_backend.h"

namespace baton::engine {
namespace {

using testing::MemoryFabric;
using testing::MemorySink;
using testing::MemorySource;
using testing::TinyBackend;
using testing::TinyExpected;

constexpr Nanos kLong = std::chrono::seconds(30);

class ExecutorCreateTest : public ::testing::Test {
 protected:
  Result<std::unique_ptr<Executor>> Make(const ExecOptions& options) {
    transfer::LocalRank local;
    local.instance = "mixed";
    local.instance_epoch = InstanceEpoch(3);
    local.layout.block_tokens = backend_.kv_shape().block_tokens;
    transfer::TransportPair transports;
    transports.source = std::make_unique<MemorySource>(&fabric_, "here", backend_.kv_pool(),
                                                       backend_.kv_shape(), &RealClock());
    transports.sink = std::make_unique<MemorySink>(&fabric_, 0, backend_.kv_pool(),
                                                   backend_.kv_shape(), &RealClock(), 1);
    return Executor::Create(options, &backend_, nullptr, std::move(transports), local,
                            &RealClock());
  }
  static ExecResponse AwaitFinal(Executor* executor, ExecId id) {
    const std::vector<ExecId> ids = {id};
    const auto responses = executor->Await(ids, kLong);
    return responses.empty() ? ExecResponse() : responses[0];
  }
  // Leases, fetches and used blocks are gone in time.
  static bool Settles(Executor* executor) {
    const MonoTime give_up = RealClock().Now() + kLong;
    while (RealClock().Now() < give_up) {
      const ExecStats stats = executor->stats();
      if (stats.blocks_used + stats.leases_open + stats.fetches_open == 0) return true;
    }
    return false;
  }

  MemoryFabric fabric_;
  TinyBackend backend_{{}};
};

TEST_F(ExecutorCreateTest, HandsOverToItself) {
  auto executor = std::move(Make({})).value();
  ExecRequest request;
  request.prompt = {3, 1, 4, 1, 5, 9, 2, 6, 5};
  request.max_tokens = 10;
  request.kind = wire::RequestKind::kContextOnly;
  const ExecResponse context = AwaitFinal(executor.get(), *executor->Enqueue(request));
  ASSERT_TRUE(context.handoff.has_value());
  EXPECT_EQ(context.handoff->instance, "mixed");
  EXPECT_EQ(context.handoff->instance_epoch, InstanceEpoch(3));
  request.kind = wire::RequestKind::kGenerationOnly;
  request.handoff = context.handoff;
  request.first_tokens = context.tokens;
  const ExecResponse final = AwaitFinal(executor.get(), *executor->Enqueue(request));
  EXPECT_EQ(final.tokens, TinyExpected({}, request.prompt, 10, {}, {}, std::nullopt).tokens);
  EXPECT_TRUE(Settles(executor.get()));
}

TEST_F(ExecutorCreateTest, AnIdleExecutorStillEndsItsLeases) {
  ExecOptions options;
  options.offer_timeout = Millis(20);
  auto executor = std::move(Make(options)).value();
  ExecRequest request;
  request.prompt = {3, 1, 4, 1, 5};
  request.kind = wire::RequestKind::kContextOnly;
  ASSERT_TRUE(AwaitFinal(executor.get(), *executor->Enqueue(request)).handoff.has_value());
  EXPECT_TRUE(Settles(executor.get()));
  ASSERT_TRUE(AwaitFinal(executor.get(), *executor->Enqueue(request)).handoff.has_value());
}

TEST_F(ExecutorCreateTest, AWithdrawnLeaseComesBackAtOnce) {
  auto executor = std::move(Make({})).value();
  ExecRequest request;
  request.prompt = {3, 1, 4, 1, 5};
  request.kind = wire::RequestKind::kContextOnly;
  const ExecResponse context = AwaitFinal(executor.get(), *executor->Enqueue(request));
  executor->WithdrawLease(context.handoff->lease);
  EXPECT_TRUE(Settles(executor.get()));
}

TEST_F(ExecutorCreateTest, ShutdownDoesNotWaitForALeaseThatNobodyTakes) {
  auto executor = std::move(Make({})).value();
  ExecRequest request;
  request.prompt = {3, 1, 4, 1, 5};
  request.kind = wire::RequestKind::kContextOnly;
  ASSERT_TRUE(AwaitFinal(executor.get(), *executor->Enqueue(request)).handoff.has_value());
  executor->Shutdown(true, Millis(5));
  EXPECT_EQ(executor->stats().leases_open, 0u);
  EXPECT_EQ(executor->stats().blocks_used, 0u);
}

TEST_F(ExecutorCreateTest, OptionsThatCannotWorkAreRefused) {
  ExecOptions options;
  options.running_max = 0;
  EXPECT_EQ(Make(options).status().code(), StatusCode::kInvalidArgument);
  options = {};
  options.vote_deadline = Nanos::zero();
  EXPECT_EQ(Make(options).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace baton::engine
