// The operations of a Llama in plain f32 loops: the oracle that fast kernels are tested against.
// Pure functions; shapes in the comments, matrices row-major. Readable over fast.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace baton::backend::reference {

// out[i] = x[i] / sqrt(mean(x^2) + eps) * gain[i]. Zhang and Sennrich, "Root Mean Square Layer
// Normalization", 2019.
void RmsNorm(std::span<const float> x, std::span<const float> gain, float eps,
             std::span<float> out);

// out[m][n] = sum over k of x[m][k] * weight[n][k].
void MatMul(std::span<const float> x, std::span<const float> weight, size_t m, size_t n, size_t k,
            std::span<float> out);

// Rotates pairs (2i, 2i + 1) of the first `dims` values of one head by position * frequency[i].
// Su et al., "RoFormer", 2021, in the interleaved layout to which GGUF permutes Llama's Q and K.
void Rope(std::span<float> head, uint32_t dims, uint32_t position,
          std::span<const float> frequency);
// base^(-2i / dims), divided by factors[i] where factors is not empty. dims / 2 values.
std::vector<float> RopeFrequencies(float base, uint32_t dims, std::span<const float> factors);

// Softmax attention of one query over `count` keys and values, each head_dim long and found by
// index: scores q.k / sqrt(head_dim).
struct KeyValue {
  const float* key;
  const float* value;
};
void Attend(std::span<const float> query, std::span<const KeyValue> history, std::span<float> out);

// out[i] = gate[i] * sigmoid(gate[i]) * up[i]. Shazeer, "GLU Variants Improve Transformer", 2020.
void SwiGlu(std::span<const float> gate, std::span<const float> up, std::span<float> out);

}  // namespace baton::backend::reference
