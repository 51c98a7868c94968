#include "src/engine/sampling/sampling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "src/base/rng.h"

namespace baton::engine {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

backend::SequenceSpec Spec(wire::SamplingParams sampling, std::vector<int32_t> history = {},
                           uint32_t prompt_tokens = 0) {
  backend::SequenceSpec spec;
  spec.sampling = sampling;
  spec.history = std::move(history);
  spec.prompt_tokens = prompt_tokens;
  return spec;
}

int32_t Once(const backend::SequenceSpec& spec, const std::vector<float>& logits,
             uint32_t position = 0) {
  Sampler sampler(spec);
  return sampler.Sample(logits, position, nullptr);
}

std::set<int32_t> Drawn(const wire::SamplingParams& params, const std::vector<float>& logits) {
  std::set<int32_t> drawn;
  for (uint32_t position = 0; position < 2000; ++position) {
    drawn.insert(Once(Spec(params), logits, position));
  }
  return drawn;
}

wire::SamplingParams Random(float temperature = 1) {
  wire::SamplingParams params;
  params.temperature = temperature;
  params.seed = 7;
  return params;
}

TEST(Sampling, GreedyTakesTheLowestIdOfEqualLogits) {
  EXPECT_EQ(Once(Spec({}), {1, 3, 3, 2}), 1);
  EXPECT_EQ(Once(Spec({}), {-1, -1}), 0);
}

TEST(Sampling, NanAndInfinityNeverWinAndNeverCrash) {
  const float nan = std::nanf("");
  EXPECT_EQ(Once(Spec({}), {nan, -kInf, -5}), 2);
  EXPECT_EQ(Once(Spec({}), {nan, -kInf}), -1);
  EXPECT_EQ(Once(Spec(Random()), {nan, nan}), -1);
  EXPECT_EQ(Once(Spec(Random()), {1, kInf, nan}), 1);
  EXPECT_EQ(Drawn(Random(), {nan, 1, -kInf, 1}), (std::set<int32_t>{1, 3}));
}

TEST(Sampling, TopKKeepsTheKBest) {
  wire::SamplingParams params = Random();
  params.top_k = 2;
  EXPECT_EQ(Drawn(params, {1, 2, 1.9F, 0}), (std::set<int32_t>{1, 2}));
  // On a tie at the edge the lower id stays.
  EXPECT_EQ(Drawn(params, {1, 2, 1, 1}), (std::set<int32_t>{0, 1}));
}

TEST(Sampling, TopPKeepsTheSmallestSetThatReachesItsShare) {
  wire::SamplingParams params = Random();
  const std::vector<float> logits = {std::log(0.5F), std::log(0.3F), std::log(0.15F),
                                     std::log(0.05F)};
  params.top_p = 0.7F;
  EXPECT_EQ(Drawn(params, logits), (std::set<int32_t>{0, 1}));
  params.top_p = 0;
  EXPECT_EQ(Drawn(params, logits), (std::set<int32_t>{0}));
  params.top_p = 1;
  EXPECT_EQ(Drawn(params, logits).size(), 4u);
}

TEST(Sampling, MinPIsAShareOfTheBest) {
  wire::SamplingParams params = Random();
  params.min_p = 0.5F;
  EXPECT_EQ(Drawn(params, {0, std::log(0.6F), std::log(0.4F)}), (std::set<int32_t>{0, 1}));
}

TEST(Sampling, DrawsFollowTheDistribution) {
  std::map<int32_t, int> seen;
  for (uint32_t position = 0; position < 20000; ++position) {
    ++seen[Once(Spec(Random()), {std::log(0.7F), std::log(0.2F), std::log(0.1F)}, position)];
  }
  EXPECT_NEAR(seen[0] / 20000.0, 0.7, 0.02);
  EXPECT_NEAR(seen[1] / 20000.0, 0.2, 0.02);
  EXPECT_NEAR(seen[2] / 20000.0, 0.1, 0.02);
}

TEST(Sampling, LowTemperatureSharpens) {
  int best = 0;
  for (uint32_t position = 0; position < 1000; ++position) {
    best += Once(Spec(Random(0.1F)), {0, 1}, position) == 1 ? 1 : 0;
  }
  EXPECT_GT(best, 995);
}

TEST(Sampling, PenaltiesLookAtTheHistoryTheyAreDefinedOver) {
  wire::SamplingParams params;
  params.repetition_penalty = 2;  // prompt counts
  EXPECT_EQ(Once(Spec(params, {1}, 1), {2, 3, 0}), 0);
  EXPECT_EQ(Once(Spec(params, {1}, 1), {-3, -2, -9}), 0);  // a negative logit goes down too
  params = {};
  params.presence_penalty = 2;  // the prompt does not count
  EXPECT_EQ(Once(Spec(params, {1}, 1), {2, 3, 0}), 1);
  EXPECT_EQ(Once(Spec(params, {1}, 0), {2, 3, 0}), 0);
  params = {};
  params.frequency_penalty = 0.6F;
  EXPECT_EQ(Once(Spec(params, {1}, 0), {2, 3, 0}), 1);
  EXPECT_EQ(Once(Spec(params, {1, 1}, 0), {2, 3, 0}), 0);
}

TEST(Sampling, WhatWasDrawnEntersTheHistory) {
  wire::SamplingParams params;
  params.presence_penalty = 2;
  Sampler sampler(Spec(params));
  EXPECT_EQ(sampler.Sample(std::vector<float>{2, 3, 0}, 0, nullptr), 1);
  EXPECT_EQ(sampler.Sample(std::vector<float>{2, 3, 0}, 1, nullptr), 0);
}

TEST(Sampling, ASplitRunDrawsWhatAnUnsplitRunDraws) {
  wire::SamplingParams params = Random(0.9F);
  params.top_p = 0.95F;
  params.repetition_penalty = 1.1F;
  params.frequency_penalty = 0.2F;
  Rng rng(3);
  std::vector<std::vector<float>> logits(40, std::vector<float>(50));
  for (auto& row : logits) {
    for (float& value : row) value = static_cast<float>(rng.Uniform() * 4);
  }
  const std::vector<int32_t> prompt = {4, 8, 15};
  Sampler whole(Spec(params, prompt, 3));
  std::vector<int32_t> tokens;
  for (uint32_t i = 0; i < 40; ++i) tokens.push_back(whole.Sample(logits[i], 3 + i, nullptr));
  for (const uint32_t cut : {1u, 20u}) {
    std::vector<int32_t> history = prompt;
    history.insert(history.end(), tokens.begin(), tokens.begin() + cut);
    Sampler rest(Spec(params, history, 3));
    for (uint32_t i = cut; i < 40; ++i) {
      EXPECT_EQ(rest.Sample(logits[i], 3 + i, nullptr), tokens[i]) << "cut " << cut << " at " << i;
    }
  }
}

TEST(Sampling, UniformsDifferBySeedAndPosition) {
  std::set<double> seen;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    for (uint32_t position = 0; position < 50; ++position) {
      const double u = UniformAt(seed, position);
      EXPECT_GE(u, 0);
      EXPECT_LT(u, 1);
      seen.insert(u);
    }
  }
  EXPECT_EQ(seen.size(), 2500u);
}

TEST(Sampling, LogprobsAreOfTheRawLogits) {
  backend::SequenceSpec spec = Spec(Random(5));
  spec.sampling.top_k = 1;
  spec.sampling.presence_penalty = 1;
  spec.history = {0};
  spec.logprobs = 2;
  Sampler sampler(spec);
  std::optional<wire::PositionLogprobs> got;
  const std::vector<float> logits = {std::log(0.5F), std::log(0.3F), std::log(0.2F)};
  const int32_t token = sampler.Sample(logits, 1, &got);
  EXPECT_EQ(token, 1);  // the penalty took 0 down by 1
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(got->chosen.token, 1);
  EXPECT_NEAR(got->chosen.logprob, std::log(0.3), 1e-6);
  ASSERT_EQ(got->top.size(), 2u);
  EXPECT_EQ(got->top[0].token, 0);
  EXPECT_NEAR(got->top[0].logprob, std::log(0.5), 1e-6);
  EXPECT_EQ(got->top[1].token, 1);
}

TEST(Sampling, NoLogprobsUnlessAsked) {
  std::optional<wire::PositionLogprobs> got;
  Sampler sampler(Spec({}));
  sampler.Sample(std::vector<float>{1, 2}, 0, &got);
  EXPECT_FALSE(got.has_value());
}

TEST(Sampling, MoreLogprobsThanTokensGivesAll) {
  EXPECT_EQ(LogprobsOf(std::vector<float>{1, 2, -kInf}, 1, 20).top.size(), 2u);
}

}  // namespace
}  // namespace baton::engine
