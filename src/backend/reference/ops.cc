#include "src/backend/reference/ops.h"

#include <algorithm>
#include <cmath>

namespace baton::backend::reference {
namespace {

// Sixteen partial sums: closer to the exact sum than one, and the compiler can use its vectors.
float Dot(const float* a, const float* b, size_t n) {
  constexpr size_t kLanes = 16;
  float partial[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) partial[lane] += a[i + lane] * b[i + lane];
  }
  for (; i < n; ++i) partial[0] += a[i] * b[i];
  float sum = 0;
  for (const float value : partial) sum += value;
  return sum;
}

}  // namespace

void RmsNorm(std::span<const float> x, std::span<const float> gain, float eps,
             std::span<float> out) {
  const float mean = Dot(x.data(), x.data(), x.size()) / static_cast<float>(x.size());
  const float scale = 1.0F / std::sqrt(mean + eps);
  for (size_t i = 0; i < x.size(); ++i) out[i] = x[i] * scale * gain[i];
}

void MatMul(std::span<const float> x, std::span<const float> weight, size_t m, size_t n, size_t k,
            std::span<float> out) {
  for (size_t column = 0; column < n; ++column) {
    for (size_t row = 0; row < m; ++row) {
      out[row * n + column] = Dot(&x[row * k], &weight[column * k], k);
    }
  }
}

void Rope(std::span<float> head, uint32_t dims, uint32_t position,
          std::span<const float> frequency) {
  for (uint32_t i = 0; i < dims / 2; ++i) {
    const float angle = static_cast<float>(position) * frequency[i];
    const float cosine = std::cos(angle);
    const float sine = std::sin(angle);
    const float a = head[2 * i];
    const float b = head[2 * i + 1];
    head[2 * i] = a * cosine - b * sine;
    head[2 * i + 1] = a * sine + b * cosine;
  }
}

std::vector<float> RopeFrequencies(float base, uint32_t dims, std::span<const float> factors) {
  std::vector<float> frequency(dims / 2);
  for (uint32_t i = 0; i < dims / 2; ++i) {
    const double exponent = -2.0 * i / dims;
    frequency[i] = static_cast<float>(std::pow(static_cast<double>(base), exponent));
    if (!factors.empty()) frequency[i] /= factors[i];
  }
  return frequency;
}

void Attend(std::span<const float> query, std::span<const KeyValue> history, std::span<float> out) {
  const size_t dim = query.size();
  const float scale = 1.0F / std::sqrt(static_cast<float>(dim));
  std::vector<float> weight(history.size());
  for (size_t t = 0; t < history.size(); ++t) {
    weight[t] = Dot(query.data(), history[t].key, dim) * scale;
  }
  const float most = *std::max_element(weight.begin(), weight.end());
  float sum = 0;
  for (float& w : weight) sum += w = std::exp(w - most);
  std::fill(out.begin(), out.end(), 0.0F);
  for (size_t t = 0; t < history.size(); ++t) {
    const float share = weight[t] / sum;
    for (size_t d = 0; d < dim; ++d) out[d] += share * history[t].value[d];
  }
}

void SwiGlu(std::span<const float> gate, std::span<const float> up, std::span<float> out) {
  for (size_t i = 0; i < gate.size(); ++i) {
    out[i] = gate[i] / (1.0F + std::exp(-gate[i])) * up[i];
  }
}

}  // namespace baton::backend::reference
