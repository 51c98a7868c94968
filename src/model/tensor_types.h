// Storage types of GGUF tensors and their values as f32. Pure functions.
//
// A row is stored as blocks of consecutive values; each block carries its own scales. Layouts are
// those of GGUF version 3 files (little endian), checked in tests against the PyPI package `gguf`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace baton::model {

// Numbers are the file format's.
enum class TensorType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ2_K = 10,
  kQ3_K = 11,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kBf16 = 30,
};

struct TypeInfo {
  const char* name;
  uint32_t block_values;  // values per block
  uint32_t block_bytes;
};

// Null for a type that is not supported.
const TypeInfo* InfoOf(uint32_t type);
inline const TypeInfo& InfoOf(TensorType type) { return *InfoOf(static_cast<uint32_t>(type)); }
// "F32, F16, Q4_0, ...", for error messages.
std::string SupportedTypes();

// `values` is a multiple of the type's block; `in` holds values / block_values * block_bytes bytes
// of any alignment; `out` holds `values` floats.
void Dequantize(TensorType type, const std::byte* in, size_t values, float* out);

float HalfToFloat(uint16_t half);
inline float Bf16ToFloat(uint16_t bits) {
  return __builtin_bit_cast(float, static_cast<uint32_t>(bits) << 16);
}
// Rounds to nearest, ties to even; NaN stays NaN.
inline uint16_t FloatToBf16(float value) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<uint16_t>((bits >> 16) | 0x40U);
  return static_cast<uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

}  // namespace baton::model
