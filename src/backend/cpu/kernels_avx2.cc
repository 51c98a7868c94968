// AVX2 and FMA: sixteen lanes in two registers.
#include <immintrin.h>

#include <cstdint>

#include "src/backend/cpu/kernels.h"

#define TARGET __attribute__((target("avx2,fma")))
#define INLINE TARGET __attribute__((always_inline)) inline

namespace baton::backend::cpu {
namespace {

struct V {
  __m256 a, b;
};
struct Pairs {
  __m256i a, b;
};
inline constexpr int kTileVectors = 1;  // 6 x 2 registers hold a tile's sums, of 16

INLINE V Zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
INLINE V Set1(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
INLINE V Load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
INLINE void Store(float* p, V v) {
  _mm256_storeu_ps(p, v.a);
  _mm256_storeu_ps(p + 8, v.b);
}
INLINE V Add(V x, V y) { return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
INLINE V Sub(V x, V y) { return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)}; }
INLINE V Mul(V x, V y) { return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
INLINE V Div(V x, V y) { return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
INLINE V Min(V x, V y) { return {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)}; }
INLINE V Max(V x, V y) { return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)}; }
INLINE V Fma(V x, V y, V z) {
  return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}
INLINE V Round(V x) {
  constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  return {_mm256_round_ps(x.a, kNearest), _mm256_round_ps(x.b, kNearest)};
}
INLINE __m256 Scale(__m256 x, __m256 n) {
  const __m256i exponent = _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23);
  return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(x), exponent));
}
INLINE V Scale(V x, V n) { return {Scale(x.a, n.a), Scale(x.b, n.b)}; }
INLINE float ReduceAdd(V v) {
  const __m256 eight = _mm256_add_ps(v.a, v.b);
  __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  four = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(four, _mm_movehdup_ps(four)));
}
INLINE float ReduceMax(V v) {
  const __m256 eight = _mm256_max_ps(v.a, v.b);
  __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  four = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(four, _mm_movehdup_ps(four)));
}
INLINE __m256 KeepFirst(__m256 v, int count, float other) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256i keep = _mm256_cmpgt_epi32(_mm256_set1_epi32(count), lane);
  return _mm256_blendv_ps(_mm256_set1_ps(other), v, _mm256_castsi256_ps(keep));
}
INLINE V KeepFirst(V v, uint32_t count, float other) {
  const int kept = static_cast<int>(count);
  return {KeepFirst(v.a, kept, other), KeepFirst(v.b, kept - 8, other)};
}
INLINE __m256 LoadHalf(const uint16_t* p) {
  const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
}
INLINE V Load(const uint16_t* p) { return {LoadHalf(p), LoadHalf(p + 8)}; }
INLINE void StoreHalf(uint16_t* p, __m256 v) {
  // Rounds to nearest, ties to even. NaN keeps its sign and becomes quiet.
  const __m256i bits = _mm256_castps_si256(v);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
  rounded = _mm256_blendv_epi8(rounded, _mm256_or_si256(bits, _mm256_set1_epi32(0x400000)), nan);
  rounded = _mm256_srli_epi32(rounded, 16);
  const __m256i packed = _mm256_packus_epi32(rounded, rounded);
  const __m256i ordered = _mm256_permute4x64_epi64(packed, 0x08);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_castsi256_si128(ordered));
}
INLINE void Store(uint16_t* p, V v) {
  StoreHalf(p, v.a);
  StoreHalf(p + 8, v.b);
}

INLINE Pairs LoadPairs(const uint16_t* p) {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)),
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 16))};
}
INLINE Pairs SetPair(const uint16_t* p) {
  int32_t pair;
  __builtin_memcpy(&pair, p, sizeof(pair));
  return {_mm256_set1_epi32(pair), _mm256_set1_epi32(pair)};
}
INLINE __m256 Dot(__m256i a, __m256i b, __m256 c) {
  const __m256i high = _mm256_set1_epi32(static_cast<int32_t>(0xffff0000));
  const __m256 first = _mm256_fmadd_ps(_mm256_castsi256_ps(_mm256_slli_epi32(a, 16)),
                                       _mm256_castsi256_ps(_mm256_slli_epi32(b, 16)), c);
  return _mm256_fmadd_ps(_mm256_castsi256_ps(_mm256_and_si256(a, high)),
                         _mm256_castsi256_ps(_mm256_and_si256(b, high)), first);
}
INLINE V DotPairs(Pairs x, Pairs y, V z) { return {Dot(x.a, y.a, z.a), Dot(x.b, y.b, z.b)}; }

// out[16 * i + j] = in[j][i]
INLINE void Transpose(const V in[16], float* out) {
  float row[16];
  for (int j = 0; j < 16; ++j) {
    Store(row, in[j]);
    for (int i = 0; i < 16; ++i) out[16 * i + j] = row[i];
  }
}

#include "src/backend/cpu/kernels_body.inc"
}  // namespace

const Kernels kAvx2Kernels = TableOf("avx2");

}  // namespace baton::backend::cpu
