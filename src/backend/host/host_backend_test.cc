// The step machine: chaining, sampling state, tickets, and refusals that leave it usable.
#include "src/backend/host/host_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "src/backend/testing.h"

namespace baton::backend {
namespace {

using testing::HasSubstr;

class HostBackendTest : public testing::Test {
 protected:
  HostBackendTest()
      : model_(**model::MakeDummy(OddConfig(), 5)),
        backend_("cpu", &model_,
                 {.dtype = DType::kF32, .kv_blocks = 20, .threads = 1, .limits = {4, 32}}) {}

  StepRow Row(uint64_t admission, uint32_t position, std::vector<int32_t> tokens, bool sample) {
    return {.admission = AdmissionId(admission),
            .position = position,
            .tokens = std::move(tokens),
            .blocks = BlocksFor(48, 16, static_cast<uint32_t>(admission) * 3),
            .sample = sample};
  }

  model::Model model_;
  TestBackend backend_;
};

TEST_F(HostBackendTest, ChainedRowsComputeWhatTheirTokensWould) {
  const auto want = backend_.Greedy(std::vector<int32_t>{1, 2, 3}, 6, BlocksFor(48, 16));
  backend_->OpenSequence({.admission = AdmissionId(1)});
  backend_->OpenSequence({.admission = AdmissionId(2)});
  // Rows change places from step to step; row 1 of the first step is the sequence under test.
  std::vector<int32_t> drawn;
  StepInput step{.rows = {Row(2, 0, {9}, true), Row(1, 0, {1, 2, 3}, true)}};
  drawn.push_back(backend_.Step(step).rows[1].token);
  int32_t from = 1;
  for (uint32_t i = 0; i < 5; ++i) {
    StepRow mine = Row(1, 3 + i, {0}, true);
    mine.input_from_row = from;
    StepRow other = Row(2, 1 + i, {7}, true);
    const bool first = i % 2 == 0;
    step.rows = first ? std::vector<StepRow>{mine, other} : std::vector<StepRow>{other, mine};
    from = first ? 0 : 1;
    drawn.push_back(backend_.Step(step).rows[static_cast<size_t>(from)].token);
  }
  EXPECT_EQ(drawn, want);
}

TEST_F(HostBackendTest, RowsThatDoNotSampleGiveNoToken) {
  const StepOutput output = backend_.Step({.rows = {Row(1, 0, {1, 2}, false)}});
  ASSERT_EQ(output.rows.size(), 1U);
  EXPECT_EQ(output.rows[0].token, -1);
  EXPECT_EQ(output.rows[0].position, 2U);
  EXPECT_TRUE(backend_.Step({}).rows.empty());
}

TEST_F(HostBackendTest, LogprobsComeWithTheTokenWhenAsked) {
  backend_->OpenSequence({.admission = AdmissionId(1), .logprobs = 3});
  const StepOutput output = backend_.Step({.rows = {Row(1, 0, {1, 2}, true)}});
  ASSERT_TRUE(output.rows[0].logprobs.has_value());
  EXPECT_EQ(output.rows[0].logprobs->chosen.token, output.rows[0].token);
  EXPECT_EQ(output.rows[0].logprobs->top.size(), 3U);
}

TEST_F(HostBackendTest, TicketsAreAnsweredOnceInAnyOrder) {
  const StepRow row = Row(1, 0, {1}, false);
  const auto one = backend_->Submit({.step = 1, .rows = {row}});
  const auto two = backend_->Submit({.step = 2, .rows = {row}});
  ASSERT_TRUE(one.ok() && two.ok());
  EXPECT_EQ(backend_->Poll(*two).value()->step, 2U);
  EXPECT_EQ(backend_->Poll(*one).value()->step, 1U);
  EXPECT_EQ(backend_->Poll(*one).status().code(), StatusCode::kInvalidArgument);
  for (uint64_t step = 3; step < 3 + HostBackend::kUnansweredMax; ++step) {
    ASSERT_TRUE(backend_->Submit({.step = step}).ok());
  }
  const auto more = backend_->Submit({.step = 3 + HostBackend::kUnansweredMax});
  EXPECT_THAT(more.status().message(), HasSubstr("never polled"));
}

TEST_F(HostBackendTest, BadStepsAreRefusedAndChangeNothing) {
  const auto refused = [&](const std::function<void(StepInput*)>& change, const char* why) {
    StepInput step{.step = 1, .rows = {Row(1, 0, {1, 2}, false)}};
    change(&step);
    const auto result = backend_->Submit(step);
    EXPECT_EQ(result.status().code(), StatusCode::kInvalidArgument) << why;
    EXPECT_THAT(result.status().message(), HasSubstr(why));
  };
  refused([](StepInput* s) { s->step = 2; }, "consecutive");
  refused([](StepInput* s) { s->rows.resize(5, s->rows[0]); }, "5 rows in one step, at most 4");
  refused([](StepInput* s) { s->rows[0].tokens.resize(33); }, "33 tokens in one step, at most 32");
  refused([](StepInput* s) { s->rows[0].tokens.clear(); }, "no tokens");
  refused([](StepInput* s) { s->rows[0].tokens[1] = 203; }, "token 203 is outside");
  refused([](StepInput* s) { s->rows[0].tokens[1] = -1; }, "token -1 is outside");
  refused([](StepInput* s) { s->rows[0].blocks[2] = BlockId(20); }, "block 20 lies outside");
  refused([](StepInput* s) { s->rows[0].position = 47; }, "do not cover 49 positions");
  refused([](StepInput* s) { s->rows[0].position = 255; }, "above the model's 256");
  refused([](StepInput* s) { s->rows[0].position = UINT32_MAX; }, "above the model's 256");
  refused([](StepInput* s) { s->rows[0].sample = true; }, "not open");
  refused([](StepInput* s) { s->rows[0].input_from_row = 0; }, "has one token");
  refused(
      [](StepInput* s) {
        s->rows[0].tokens = {0};
        s->rows[0].input_from_row = 0;
      },
      "row 0 of the step before does not exist");
  EXPECT_TRUE(backend_->Submit({.step = 1, .rows = {Row(1, 0, {1, 2}, false)}}).ok());
}

TEST_F(HostBackendTest, FactoryRefusesWhatCannotWork) {
  alignas(64) static std::byte memory[1 << 20];
  const Buffer kv{Space::kHost, memory, sizeof(memory)};
  const BackendOptions good{.dtype = DType::kF32, .kv_blocks = 4};
  const auto refused = [&](const std::string& name, BackendOptions options, Buffer buffer,
                           const char* why) {
    const auto made = MakeBackend(name, &model_, options, buffer);
    EXPECT_EQ(made.status().code(), StatusCode::kInvalidArgument) << why;
    EXPECT_THAT(made.status().message(), HasSubstr(why));
  };
  EXPECT_TRUE(MakeBackend("cpu", &model_, good, kv).ok());
  refused("gpu", good, kv, "'gpu' does not exist");
  BackendOptions options = good;
  options.dtype = DType::kBf16;
  refused("reference", options, kv, "f32 only");
  options = good;
  options.threads = 0;
  refused("cpu", options, kv, "0 threads");
  options = good;
  options.block_tokens = 0;
  refused("cpu", options, kv, "blocks of 0 tokens");
  options = good;
  options.kv_blocks = 0;
  refused("cpu", options, kv, "no blocks");
  options = good;
  options.limits = {65, 64};
  refused("cpu", options, kv, "65 rows");
  refused("cpu", good, {Space::kHost, memory, 1000}, "1000 were given");
  refused("cpu", good, {Space::kHost, memory + 4, sizeof(memory) - 4}, "aligned to 64");
  refused("cpu", good, {Space::kDevice, memory, sizeof(memory)}, "host memory");
}

}  // namespace
}  // namespace baton::backend
