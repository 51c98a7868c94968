// AVX-512 with bf16 products (Cooper Lake, Sapphire Rapids, Zen 4 and later).
#include <immintrin.h>

#include <cstdint>

#include "src/backend/cpu/kernels.h"

#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma")))
#define HAVE_BF16_DOT

namespace baton::backend::cpu {
namespace {
#include "src/backend/cpu/kernels_avx512.inc"
#include "src/backend/cpu/kernels_body.inc"
}  // namespace

const Kernels kAvx512Bf16Kernels = TableOf("avx512_bf16");

}  // namespace baton::backend::cpu
