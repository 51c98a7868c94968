// AVX-512 without bf16 products.
#include <immintrin.h>

#include <cstdint>

#include "src/backend/cpu/kernels.h"

#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")))

namespace baton::backend::cpu {
namespace {
#include "src/backend/cpu/kernels_avx512.inc"
#include "src/backend/cpu/kernels_body.inc"
}  // namespace

const Kernels kAvx512Kernels = TableOf("avx512");

}  // namespace baton::backend::cpu
