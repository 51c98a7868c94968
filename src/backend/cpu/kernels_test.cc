// Every kernel table that this processor runs against the oracle's plain loops, over shapes with
// odd tails. Tolerances: f32 1e-5 of the sum of absolute products; bf16 inputs are rounded first,
// so that products are exact and the same bound holds; bf16 outputs add half a unit in the last
// place (2^-9).
#include "src/backend/cpu/kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "src/backend/cpu/linear.h"
#include "src/backend/reference/ops.h"
#include "src/base/rng.h"

namespace baton::backend::cpu {
namespace {

constexpr float kF32 = 1e-5F;
constexpr float kBf16 = 1.0F / 256 + kF32;

std::vector<float> Random(Rng* rng, size_t n, DType rounded) {
  std::vector<float> values(n);
  for (float& value : values) {
    value = static_cast<float>(rng->Uniform() * 2 - 1);
    if (rounded == DType::kBf16) value = model::Bf16ToFloat(model::FloatToBf16(value));
  }
  return values;
}

void Fill(const Activations& to, const std::vector<float>& values, size_t rows) {
  const size_t width = values.size() / rows;
  for (size_t r = 0; r < rows; ++r) {
    for (size_t i = 0; i < width; ++i) {
      const float value = values[r * width + i];
      if (to.dtype == DType::kF32) {
        reinterpret_cast<float*>(to.Row(r))[i] = value;
      } else {
        reinterpret_cast<uint16_t*>(to.Row(r))[i] = model::FloatToBf16(value);
      }
    }
  }
}

float At(const Activations& from, size_t row, size_t i) {
  if (from.dtype == DType::kF32) return reinterpret_cast<const float*>(from.Row(row))[i];
  return model::Bf16ToFloat(reinterpret_cast<const uint16_t*>(from.Row(row))[i]);
}

struct Param {
  const Kernels* kernels;
  DType dtype;
};

class KernelsTest : public testing::TestWithParam<Param> {
 protected:
  const Kernels& kernels() const { return *GetParam().kernels; }
  DType dtype() const { return GetParam().dtype; }
  float out_tolerance() const { return dtype() == DType::kF32 ? kF32 : kBf16; }
};

std::vector<Param> AllParams() {
  std::vector<Param> params;
  for (const Kernels* kernels : SupportedKernels()) {
    params.push_back({kernels, DType::kF32});
    params.push_back({kernels, DType::kBf16});
  }
  return params;
}

INSTANTIATE_TEST_SUITE_P(AllSets, KernelsTest, testing::ValuesIn(AllParams()),
                         [](const auto& info) {
                           return std::string(info.param.kernels->name) + "_" +
                                  DTypeName(info.param.dtype);
                         });

TEST_P(KernelsTest, ProductsMatchTheOracle) {
  Rng rng(7);
  Pool pool(2);
  const Products products{&kernels(), &pool};
  for (const uint32_t m : {1U, 2U, 5U, 6U, 7U, 13U, 100U}) {
    for (const uint32_t n : {1U, 63U, 64U, 130U}) {
      for (const uint32_t k : {1U, 2U, 31U, 33U, 257U}) {
        const auto x = Random(&rng, m * k, dtype());
        const auto w = Random(&rng, n * k, dtype());
        const auto start = Random(&rng, m * n, DType::kF32);
        Activations in(dtype(), m, k);
        Fill(in, x, m);
        const model::Tensor tensor = model::Tensor::Owned(n, k, w);
        const model::Tensor* const tensors[] = {&tensor};
        const Packed packed = Packed::Rows(tensors, dtype(), &pool);
        std::vector<float> want(m * n);
        reference::MatMul(x, w, m, n, k, want);
        std::vector<float> stored(m * n);
        std::vector<float> added = start;
        products.Store(in, packed, m, stored.data(), n);
        products.Accumulate(in, packed, m, added.data(), n);
        const float bound = kF32 * static_cast<float>(k);
        for (size_t i = 0; i < want.size(); ++i) {
          ASSERT_NEAR(stored[i], want[i], bound) << m << " " << n << " " << k << " at " << i;
          ASSERT_EQ(added[i], start[i] + stored[i]);
        }
      }
    }
  }
}

TEST_P(KernelsTest, ARowOfAProductDoesNotDependOnItsBatch) {
  Rng rng(8);
  Pool pool(2);
  const Products products{&kernels(), &pool};
  constexpr uint32_t kRows = 103;
  constexpr uint32_t kColumns = 70;
  constexpr uint32_t kDepth = 129;
  const auto x = Random(&rng, kRows * kDepth, dtype());
  const model::Tensor tensor =
      model::Tensor::Owned(kColumns, kDepth, Random(&rng, kColumns * kDepth, dtype()));
  const model::Tensor* const tensors[] = {&tensor};
  const Packed packed = Packed::Rows(tensors, dtype(), &pool);
  Activations all(dtype(), kRows, kDepth);
  Fill(all, x, kRows);
  std::vector<float> together(kRows * kColumns);
  products.Store(all, packed, kRows, together.data(), kColumns);
  for (uint32_t r = 0; r < kRows; ++r) {
    Activations one(dtype(), 1, kDepth);
    Fill(one, {x.begin() + r * kDepth, x.begin() + (r + 1) * kDepth}, 1);
    std::vector<float> alone(kColumns);
    products.Store(one, packed, 1, alone.data(), kColumns);
    for (uint32_t n = 0; n < kColumns; ++n) ASSERT_EQ(alone[n], together[r * kColumns + n]);
  }
}

TEST_P(KernelsTest, FusedGateAndUpMatchTheOracle) {
  Rng rng(9);
  Pool pool(1);
  const Products products{&kernels(), &pool};
  for (const uint32_t m : {1U, 7U}) {
    for (const uint32_t n : {1U, 32U, 101U}) {
      constexpr uint32_t kDepth = 45;
      const auto x = Random(&rng, m * kDepth, dtype());
      // Gates up to +-45, where the sigmoid saturates.
      const model::Tensor gate = model::Tensor::Owned(n, kDepth, Random(&rng, n * kDepth, dtype()));
      const model::Tensor up = model::Tensor::Owned(n, kDepth, Random(&rng, n * kDepth, dtype()));
      Activations in(dtype(), m, kDepth);
      Activations out(dtype(), m, n);
      Fill(in, x, m);
      products.SwiGlu(in, Packed::GateUp(gate, up, dtype(), &pool), m, out);
      std::vector<float> gates(m * n);
      std::vector<float> ups(m * n);
      reference::MatMul(x, gate.ReadAll(), m, n, kDepth, gates);
      reference::MatMul(x, up.ReadAll(), m, n, kDepth, ups);
      std::vector<float> want(m * n);
      reference::SwiGlu(gates, ups, want);
      for (uint32_t r = 0; r < m; ++r) {
        for (uint32_t i = 0; i < n; ++i) {
          const float bound = out_tolerance() * std::abs(want[r * n + i]) + kF32 * kDepth;
          ASSERT_NEAR(At(out, r, i), want[r * n + i], bound);
        }
        for (size_t i = n; i < Padded(n); ++i) ASSERT_EQ(At(out, r, i), 0) << "padding";
      }
    }
  }
}

TEST_P(KernelsTest, NormMatchesTheOracle) {
  Rng rng(10);
  for (const uint32_t n : {1U, 16U, 42U, 576U}) {
    auto x = Random(&rng, n, DType::kF32);
    auto gain = Random(&rng, n, DType::kF32);
    std::vector<float> want(n);
    reference::RmsNorm(x, gain, 1e-5F, want);
    x.resize(Padded(n));
    gain.resize(Padded(n));
    Activations out(dtype(), 1, n);
    if (dtype() == DType::kF32) {
      kernels().rms_norm_f32(x.data(), gain.data(), n, 1e-5F, reinterpret_cast<float*>(out.Row(0)));
    } else {
      kernels().rms_norm_bf16(x.data(), gain.data(), n, 1e-5F,
                              reinterpret_cast<uint16_t*>(out.Row(0)));
    }
    for (uint32_t i = 0; i < n; ++i) {
      ASSERT_NEAR(At(out, 0, i), want[i], out_tolerance() * std::abs(want[i]) + 1e-7F);
    }
  }
}

// One KV head in a pool of blocks in shuffled order.
struct Paged {
  DType dtype;
  uint32_t dim;
  uint32_t block_tokens;
  std::vector<BlockId> blocks;
  std::vector<float> keys, values;  // [position][dim]
  Activations pool;                 // row: a block, keys then values

  Paged(Rng* rng, DType type, uint32_t positions, uint32_t head_dim, uint32_t tokens)
      : dtype(type), dim(head_dim), block_tokens(tokens) {
    const uint32_t count = (positions + tokens - 1) / tokens;
    pool = Activations(type, count, size_t{2} * tokens * dim);
    for (uint32_t i = 0; i < count; ++i) blocks.emplace_back(i);
    for (uint32_t i = count; i > 1; --i) std::swap(blocks[i - 1], blocks[rng->Below(i)]);
    keys = Random(rng, positions * dim, type);
    values = Random(rng, positions * dim, type);
    std::vector<float> rows(size_t{count} * 2 * tokens * dim, 1e30F);  // junk past the end
    for (uint32_t p = 0; p < positions; ++p) {
      const size_t at = (size_t{blocks[p / tokens].value} * 2 * tokens + p % tokens) * dim;
      std::copy_n(&keys[p * dim], dim, &rows[at]);
      std::copy_n(&values[p * dim], dim, &rows[at + tokens * dim]);
    }
    Fill(pool, rows, count);
  }
};

template <typename T>
void RunAttention(const Kernels& kernels, const Paged& kv, const std::vector<float>& queries,
                  uint32_t position, uint32_t group, const Activations& out) {
  const auto tokens = static_cast<uint32_t>(queries.size() / (group * kv.dim));
  const size_t floats = AttentionScratch(tokens, group, kv.dim);
  const Pages scratch(floats * sizeof(float));
  const T* base = reinterpret_cast<const T*>(kv.pool.Row(0));
  const AttentionTask<T> task{.query = queries.data(),
                              .query_stride = size_t{group} * kv.dim,
                              .out = reinterpret_cast<T*>(out.Row(0)),
                              .out_stride = out.stride,
                              .tokens = tokens,
                              .position = position,
                              .group = group,
                              .dim = kv.dim,
                              .keys = base,
                              .values = base + kv.block_tokens * kv.dim,
                              .block_stride = kv.pool.stride,
                              .blocks = kv.blocks.data(),
                              .block_tokens = kv.block_tokens,
                              .scratch = scratch.As<float>()};
  if constexpr (sizeof(T) == 4) {
    kernels.attend_f32(task);
  } else {
    kernels.attend_bf16(task);
  }
}

void RunAttention(const Kernels& kernels, const Paged& kv, const std::vector<float>& queries,
                  uint32_t position, uint32_t group, const Activations& out) {
  if (kv.dtype == DType::kF32) {
    RunAttention<float>(kernels, kv, queries, position, group, out);
  } else {
    RunAttention<uint16_t>(kernels, kv, queries, position, group, out);
  }
}

TEST_P(KernelsTest, AttentionMatchesTheOracleOverPagedBlocks) {
  Rng rng(11);
  for (const uint32_t dim : {6U, 16U, 64U, 72U}) {
    for (const uint32_t block_tokens : {1U, 5U, 16U, 24U}) {
      for (const uint32_t position : {0U, 1U, 15U, 16U, 77U}) {
        constexpr uint32_t kGroup = 3;
        constexpr uint32_t kTokens = 7;
        const Paged kv(&rng, dtype(), position + kTokens, dim, block_tokens);
        const auto queries = Random(&rng, kTokens * kGroup * dim, DType::kF32);
        Activations out(dtype(), kTokens, kGroup * dim);
        RunAttention(kernels(), kv, queries, position, kGroup, out);
        std::vector<reference::KeyValue> history;
        for (uint32_t p = 0; p < position + kTokens; ++p) {
          history.push_back({&kv.keys[p * dim], &kv.values[p * dim]});
        }
        for (uint32_t t = 0; t < kTokens; ++t) {
          for (uint32_t g = 0; g < kGroup; ++g) {
            // The kernel's queries come scaled; the oracle scales.
            std::vector<float> query(&queries[(t * kGroup + g) * dim],
                                     &queries[(t * kGroup + g) * dim] + dim);
            for (float& value : query) value *= std::sqrt(static_cast<float>(dim));
            std::vector<float> want(dim);
            reference::Attend(query, {history.data(), position + t + 1}, want);
            for (uint32_t d = 0; d < dim; ++d) {
              const float bound = out_tolerance() * std::abs(want[d]) + kF32;
              ASSERT_NEAR(At(out, t, g * dim + d), want[d], bound)
                  << dim << " " << block_tokens << " " << position << " token " << t;
            }
          }
        }
      }
    }
  }
}

TEST_P(KernelsTest, AttentionOfATokenDoesNotDependOnItsChunk) {
  Rng rng(12);
  constexpr uint32_t kDim = 10;
  constexpr uint32_t kGroup = 3;
  constexpr uint32_t kTokens = 45;
  const Paged kv(&rng, dtype(), kTokens, kDim, 16);
  const auto queries = Random(&rng, kTokens * kGroup * kDim, DType::kF32);
  Activations together(dtype(), kTokens, kGroup * kDim);
  RunAttention(kernels(), kv, queries, 0, kGroup, together);
  for (uint32_t t = 0; t < kTokens; ++t) {
    const std::vector<float> one(&queries[t * kGroup * kDim],
                                 &queries[t * kGroup * kDim] + kGroup * kDim);
    Activations alone(dtype(), 1, kGroup * kDim);
    RunAttention(kernels(), kv, one, t, kGroup, alone);
    for (uint32_t i = 0; i < kGroup * kDim; ++i) ASSERT_EQ(At(alone, 0, i), At(together, t, i));
  }
}

}  // namespace
}  // namespace baton::backend::cpu
