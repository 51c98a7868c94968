#include "src/backend/cpu/kernels.h"

#include <vector>

namespace baton::backend::cpu {

std::span<const Kernels* const> SupportedKernels() {
  static const std::vector<const Kernels*> supported = [] {
    std::vector<const Kernels*> tables;
    const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    if (avx512 && __builtin_cpu_supports("avx512bf16")) tables.push_back(&kAvx512Bf16Kernels);
    if (avx512) tables.push_back(&kAvx512Kernels);
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
      tables.push_back(&kAvx2Kernels);
    }
    tables.push_back(&kGenericKernels);
    return tables;
  }();
  return supported;
}

}  // namespace baton::backend::cpu
