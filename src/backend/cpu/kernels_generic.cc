// Any x86-64: sixteen lanes in plain loops.
#include <cmath>
#include <cstdint>
#include <cstring>

#include "src/backend/cpu/kernels.h"
#include "src/model/tensor_types.h"

#define TARGET
#define INLINE inline

namespace baton::backend::cpu {
namespace {

struct V {
  float v[kLanes];
};
struct Pairs {
  uint16_t v[2 * kLanes];
};
inline constexpr int kTileVectors = 1;

template <typename F>
inline V Map(F f) {
  V out;
  for (uint32_t i = 0; i < kLanes; ++i) out.v[i] = f(i);
  return out;
}

INLINE V Set1(float x) {
  return Map([&](uint32_t) { return x; });
}
INLINE V Zero() { return Set1(0); }
INLINE V Load(const float* p) {
  return Map([&](uint32_t i) { return p[i]; });
}
INLINE V Load(const uint16_t* p) {
  return Map([&](uint32_t i) { return model::Bf16ToFloat(p[i]); });
}
INLINE void Store(float* p, const V& v) { memcpy(p, v.v, sizeof(v.v)); }
INLINE void Store(uint16_t* p, const V& v) {
  for (uint32_t i = 0; i < kLanes; ++i) p[i] = model::FloatToBf16(v.v[i]);
}
INLINE V Add(const V& x, const V& y) {
  return Map([&](uint32_t i) { return x.v[i] + y.v[i]; });
}
INLINE V Sub(const V& x, const V& y) {
  return Map([&](uint32_t i) { return x.v[i] - y.v[i]; });
}
INLINE V Mul(const V& x, const V& y) {
  return Map([&](uint32_t i) { return x.v[i] * y.v[i]; });
}
INLINE V Div(const V& x, const V& y) {
  return Map([&](uint32_t i) { return x.v[i] / y.v[i]; });
}
INLINE V Min(const V& x, const V& y) {
  return Map([&](uint32_t i) { return x.v[i] < y.v[i] ? x.v[i] : y.v[i]; });
}
INLINE V Max(const V& x, const V& y) {
  return Map([&](uint32_t i) { return x.v[i] > y.v[i] ? x.v[i] : y.v[i]; });
}
INLINE V Fma(const V& x, const V& y, const V& z) {
  return Map([&](uint32_t i) { return x.v[i] * y.v[i] + z.v[i]; });
}
INLINE V Round(const V& x) {
  return Map([&](uint32_t i) { return std::nearbyint(x.v[i]); });
}
INLINE V Scale(const V& x, const V& n) {
  return Map([&](uint32_t i) { return std::ldexp(x.v[i], static_cast<int>(n.v[i])); });
}
INLINE float ReduceAdd(const V& v) {
  float sum = 0;
  for (const float x : v.v) sum += x;
  return sum;
}
INLINE float ReduceMax(const V& v) {
  float most = v.v[0];
  for (const float x : v.v) most = x > most ? x : most;
  return most;
}
INLINE V KeepFirst(const V& v, uint32_t count, float other) {
  return Map([&](uint32_t i) { return i < count ? v.v[i] : other; });
}
INLINE Pairs LoadPairs(const uint16_t* p) {
  Pairs pairs;
  memcpy(pairs.v, p, sizeof(pairs.v));
  return pairs;
}
INLINE Pairs SetPair(const uint16_t* p) {
  Pairs pairs;
  for (uint32_t i = 0; i < 2 * kLanes; ++i) pairs.v[i] = p[i % 2];
  return pairs;
}
INLINE V DotPairs(const Pairs& x, const Pairs& y, const V& z) {
  return Map([&](uint32_t i) {
    const float first = model::Bf16ToFloat(x.v[2 * i]) * model::Bf16ToFloat(y.v[2 * i]) + z.v[i];
    return model::Bf16ToFloat(x.v[2 * i + 1]) * model::Bf16ToFloat(y.v[2 * i + 1]) + first;
  });
}
// out[16 * i + j] = in[j][i]
INLINE void Transpose(const V in[16], float* out) {
  for (uint32_t j = 0; j < kLanes; ++j) {
    for (uint32_t i = 0; i < kLanes; ++i) out[16 * i + j] = in[j].v[i];
  }
}

#include "src/backend/cpu/kernels_body.inc"
}  // namespace

const Kernels kGenericKernels = TableOf("generic");

}  // namespace baton::backend::cpu
