// Whole small models: cpu against the oracle, and no bit changed by batches, chunks, threads or the
// place of blocks. Tolerances on logits of size about 1: f32 1e-4, bf16 0.08 (three layers of
// activations with 8 bits).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "src/backend/probe.h"
#include "src/backend/testing.h"
#include "src/base/rng.h"

namespace baton::backend {
namespace {

model::Model Dummy(const model::Config& config) {
  auto made = model::MakeDummy(config, 5);
  CHECK(made.ok(), made.status().ToString());
  return **made;
}

BackendOptions Options(DType dtype, uint32_t threads = 2) {
  return {
      .dtype = dtype, .kv_blocks = 40, .block_tokens = 16, .threads = threads, .limits = {8, 64}};
}

std::vector<int32_t> Tokens(uint32_t count, uint64_t seed = 3) {
  Rng rng(seed);
  std::vector<int32_t> tokens(count);
  for (int32_t& token : tokens) token = static_cast<int32_t>(rng.Below(203));
  return tokens;
}

std::vector<BlockId> Shuffled(uint32_t first, uint32_t count, uint64_t seed) {
  std::vector<BlockId> blocks;
  for (uint32_t i = 0; i < count; ++i) blocks.emplace_back(first + i);
  Rng rng(seed);
  for (uint32_t i = count; i > 1; --i) std::swap(blocks[i - 1], blocks[rng.Below(i)]);
  return blocks;
}

std::vector<float> Probe(const std::string& name, const model::Model& model,
                         const BackendOptions& options, uint32_t chunk = 0) {
  TestBackend backend(name, &model, options);
  auto logits = ProbeLogits(*backend, Tokens(90), chunk);
  CHECK(logits.ok(), logits.status().ToString());
  return std::move(logits).value();
}

float MostApart(const std::vector<float>& a, const std::vector<float>& b) {
  CHECK(a.size() == b.size());
  float most = 0;
  for (size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

TEST(ModelAgreementTest, CpuMatchesTheOracleOnOddShapes) {
  std::vector<model::Config> configs(3, OddConfig());
  configs[1].tied_output = true;
  configs[1].kv_heads = 9;
  configs[2].kv_heads = 1;
  configs[2].head_dim = 16;
  configs[2].rope_dims = 16;
  for (const model::Config& config : configs) {
    const model::Model model = Dummy(config);
    const auto want = Probe("reference", model, Options(DType::kF32));
    EXPECT_LT(MostApart(want, Probe("cpu", model, Options(DType::kF32))), 1e-4F);
    EXPECT_LT(MostApart(want, Probe("cpu", model, Options(DType::kBf16))), 0.08F);
  }
}

TEST(ModelAgreementTest, RopeFactorsReachBothBackends) {
  model::Model model = Dummy(OddConfig());
  const auto plain = Probe("reference", model, Options(DType::kF32));
  model.Set("rope_freqs.weight", model::Tensor::Owned(1, 3, {1.0F, 4.0F, 32.0F}));
  const auto want = Probe("reference", model, Options(DType::kF32));
  EXPECT_GT(MostApart(want, plain), 1e-2F);
  EXPECT_LT(MostApart(want, Probe("cpu", model, Options(DType::kF32))), 1e-4F);
}

// What a parity test must notice: each of these changes the model's function.
TEST(ModelAgreementTest, MutationsOfAModelShowInTheLogits) {
  const model::Model model = Dummy(OddConfig());
  const auto want = Probe("cpu", model, Options(DType::kF32));
  model::Model rope = model;
  rope.config().rope_base = 500.0F;
  EXPECT_GT(MostApart(want, Probe("cpu", rope, Options(DType::kF32))), 1e-2F);
  model::Model skipped = model;
  skipped.config().layers = 2;
  EXPECT_GT(MostApart(want, Probe("cpu", skipped, Options(DType::kF32))), 1e-2F);
  model::Model swapped = model;
  auto q = model.Get("blk.1.attn_q.weight").ReadAll();
  std::swap_ranges(q.begin(), q.begin() + 10 * 42, q.begin() + 50 * 42);  // heads 0 and 5
  swapped.Set("blk.1.attn_q.weight", model::Tensor::Owned(90, 42, q));
  EXPECT_GT(MostApart(want, Probe("cpu", swapped, Options(DType::kF32))), 1e-2F);
}

TEST(ModelAgreementTest, ChunksAndThreadsChangeNoBit) {
  const model::Model model = Dummy(OddConfig());
  for (const DType dtype : {DType::kF32, DType::kBf16}) {
    const auto want = Probe("cpu", model, Options(dtype, 1));
    for (const uint32_t chunk : {1U, 7U, 16U, 17U}) {
      EXPECT_EQ(want, Probe("cpu", model, Options(dtype, 3), chunk)) << chunk;
    }
  }
}

TEST(ModelAgreementTest, PlaceOfBlocksChangesNoBit) {
  const model::Model model = Dummy(OddConfig());
  for (const char* name : {"reference", "cpu"}) {
    TestBackend backend(name, &model, Options(DType::kF32));
    const auto want = backend.Greedy(Tokens(50), 30, BlocksFor(80, 16));
    EXPECT_EQ(backend.Greedy(Tokens(50), 30, Shuffled(7, 33, 4)), want) << name;
  }
}

TEST(ModelAgreementTest, SequencesSharingStepsDrawWhatTheyDrawAlone) {
  const model::Model model = Dummy(OddConfig());
  for (const DType dtype : {DType::kF32, DType::kBf16}) {
    TestBackend backend("cpu", &model, Options(dtype));
    constexpr uint32_t kCount = 20;
    std::vector<std::vector<int32_t>> alone;
    std::vector<StepRow> rows;
    for (uint32_t s = 0; s < 5; ++s) {
      const auto prompt = Tokens(3 + 8 * s / 3, s);
      const auto blocks = Shuffled(s * 8, 8, s);
      alone.push_back(backend.Greedy(prompt, kCount, blocks));
      backend->OpenSequence({.admission = AdmissionId(s + 1)});
      rows.push_back(
          {.admission = AdmissionId(s + 1), .tokens = prompt, .blocks = blocks, .sample = true});
    }
    std::vector<std::vector<int32_t>> together(rows.size());
    for (uint32_t n = 0; n < kCount; ++n) {
      const StepOutput output = backend.Step({.rows = rows});
      for (size_t s = 0; s < rows.size(); ++s) {
        together[s].push_back(output.rows[s].token);
        rows[s].position += static_cast<uint32_t>(rows[s].tokens.size());
        rows[s].tokens = {output.rows[s].token};
      }
    }
    EXPECT_EQ(together, alone);
  }
}

}  // namespace
}  // namespace baton::backend
