#include "src/model/tensor_types.h"

#include <cstring>

#include "src/base/check.h"

namespace baton::model {
namespace {

struct Named {
  TensorType type;
  TypeInfo info;
};
constexpr Named kTypes[] = {
    {TensorType::kF32, {"F32", 1, 4}},       {TensorType::kF16, {"F16", 1, 2}},
    {TensorType::kBf16, {"BF16", 1, 2}},     {TensorType::kQ4_0, {"Q4_0", 32, 18}},
    {TensorType::kQ4_1, {"Q4_1", 32, 20}},   {TensorType::kQ5_0, {"Q5_0", 32, 22}},
    {TensorType::kQ5_1, {"Q5_1", 32, 24}},   {TensorType::kQ8_0, {"Q8_0", 32, 34}},
    {TensorType::kQ2_K, {"Q2_K", 256, 84}},  {TensorType::kQ3_K, {"Q3_K", 256, 110}},
    {TensorType::kQ4_K, {"Q4_K", 256, 144}}, {TensorType::kQ5_K, {"Q5_K", 256, 176}},
    {TensorType::kQ6_K, {"Q6_K", 256, 210}},
};

float Half(const uint8_t* p) {
  uint16_t bits;
  memcpy(&bits, p, sizeof(bits));
  return HalfToFloat(bits);
}

// 4 bit: 16 bytes; byte j holds value j in the low half and value j + 16 in the high half.
void Q4_0(const uint8_t* b, float* out) {
  const float d = Half(b);
  for (int j = 0; j < 16; ++j) {
    out[j] = d * static_cast<float>((b[2 + j] & 15) - 8);
    out[j + 16] = d * static_cast<float>((b[2 + j] >> 4) - 8);
  }
}

void Q4_1(const uint8_t* b, float* out) {
  const float d = Half(b);
  const float m = Half(b + 2);
  for (int j = 0; j < 16; ++j) {
    out[j] = d * static_cast<float>(b[4 + j] & 15) + m;
    out[j + 16] = d * static_cast<float>(b[4 + j] >> 4) + m;
  }
}

// The fifth bit of value j is bit j of a 32-bit word.
int Five(const uint8_t* high_bits, const uint8_t* nibbles, int j) {
  uint32_t high;
  memcpy(&high, high_bits, sizeof(high));
  const int low = j < 16 ? nibbles[j] & 15 : nibbles[j - 16] >> 4;
  return low | static_cast<int>((high >> j) & 1U) << 4;
}

void Q5_0(const uint8_t* b, float* out) {
  const float d = Half(b);
  for (int j = 0; j < 32; ++j) out[j] = d * static_cast<float>(Five(b + 2, b + 6, j) - 16);
}

void Q5_1(const uint8_t* b, float* out) {
  const float d = Half(b);
  const float m = Half(b + 2);
  for (int j = 0; j < 32; ++j) out[j] = d * static_cast<float>(Five(b + 4, b + 8, j)) + m;
}

void Q8_0(const uint8_t* b, float* out) {
  const float d = Half(b);
  for (int j = 0; j < 32; ++j) out[j] = d * static_cast<float>(static_cast<int8_t>(b[2 + j]));
}

// 16 sub-blocks of 16; scales: low half the scale, high half the minimum.
void Q2_K(const uint8_t* b, float* out) {
  const uint8_t* scales = b;
  const uint8_t* quants = b + 16;
  const float d = Half(b + 80);
  const float dmin = Half(b + 82);
  for (int v = 0; v < 256; ++v) {
    const int half = v / 128;
    const int shift = v % 128 / 32 * 2;
    const int quant = (quants[half * 32 + v % 32] >> shift) & 3;
    const uint8_t scale = scales[v / 16];
    out[v] = d * static_cast<float>(scale & 15) * static_cast<float>(quant) -
             dmin * static_cast<float>(scale >> 4);
  }
}

// 16 six-bit scales in 12 bytes: low four bits in bytes 0-7, high two bits in bytes 8-11.
void Q3_K(const uint8_t* b, float* out) {
  const uint8_t* high = b;
  const uint8_t* quants = b + 32;
  const uint8_t* packed = b + 96;
  const float d = Half(b + 108);
  for (int v = 0; v < 256; ++v) {
    const int sub = v / 16;
    const int low4 = sub < 8 ? packed[sub] & 15 : packed[sub - 8] >> 4;
    const int high2 = (packed[8 + sub % 4] >> (sub / 4 * 2)) & 3;
    const int scale = (low4 | high2 << 4) - 32;
    const int bit = (high[v % 32] >> (v / 32)) & 1;
    const int quant = ((quants[v / 128 * 32 + v % 32] >> (v % 128 / 32 * 2)) & 3) - (bit ? 0 : 4);
    out[v] = d * static_cast<float>(scale) * static_cast<float>(quant);
  }
}

// 8 six-bit scales and 8 six-bit minimums in 12 bytes, as Q4_K and Q5_K have them.
void ScaleMin(const uint8_t* packed, int j, int* scale, int* minimum) {
  if (j < 4) {
    *scale = packed[j] & 63;
    *minimum = packed[j + 4] & 63;
  } else {
    *scale = (packed[j + 4] & 15) | (packed[j - 4] >> 6) << 4;
    *minimum = (packed[j + 4] >> 4) | (packed[j] >> 6) << 4;
  }
}

// `high` null: Q4_K.
void Q45_K(const uint8_t* b, const uint8_t* high, const uint8_t* quants, float* out) {
  const float d = Half(b);
  const float dmin = Half(b + 2);
  for (int j = 0; j < 8; ++j) {
    int scale;
    int minimum;
    ScaleMin(b + 4, j, &scale, &minimum);
    const float step = d * static_cast<float>(scale);
    const float low = dmin * static_cast<float>(minimum);
    for (int i = 0; i < 32; ++i) {
      const uint8_t byte = quants[j / 2 * 32 + i];
      int quant = j % 2 == 0 ? byte & 15 : byte >> 4;
      if (high != nullptr) quant |= ((high[i] >> j) & 1) << 4;
      out[j * 32 + i] = step * static_cast<float>(quant) - low;
    }
  }
}

void Q6_K(const uint8_t* b, float* out) {
  const uint8_t* low = b;
  const uint8_t* high = b + 128;
  const uint8_t* scales = b + 192;
  const float d = Half(b + 208);
  for (int v = 0; v < 256; ++v) {
    const int half = v / 128;
    const int quarter = v % 128 / 32;
    const int i = v % 32;
    const uint8_t nibbles = low[half * 64 + quarter % 2 * 32 + i];
    const int four = quarter < 2 ? nibbles & 15 : nibbles >> 4;
    const int two = (high[half * 32 + i] >> (quarter * 2)) & 3;
    const float step = d * static_cast<float>(static_cast<int8_t>(scales[v / 16]));
    out[v] = step * static_cast<float>((four | two << 4) - 32);
  }
}

void Block(TensorType type, const uint8_t* b, float* out) {
  switch (type) {
    case TensorType::kQ4_0:
      return Q4_0(b, out);
    case TensorType::kQ4_1:
      return Q4_1(b, out);
    case TensorType::kQ5_0:
      return Q5_0(b, out);
    case TensorType::kQ5_1:
      return Q5_1(b, out);
    case TensorType::kQ8_0:
      return Q8_0(b, out);
    case TensorType::kQ2_K:
      return Q2_K(b, out);
    case TensorType::kQ3_K:
      return Q3_K(b, out);
    case TensorType::kQ4_K:
      return Q45_K(b, nullptr, b + 16, out);
    case TensorType::kQ5_K:
      return Q45_K(b, b + 16, b + 48, out);
    case TensorType::kQ6_K:
      return Q6_K(b, out);
    default:
      CHECK(false, "not a block type");
  }
}

}  // namespace

const TypeInfo* InfoOf(uint32_t type) {
  for (const Named& named : kTypes) {
    if (static_cast<uint32_t>(named.type) == type) return &named.info;
  }
  return nullptr;
}

std::string SupportedTypes() {
  std::string text;
  for (const Named& named : kTypes) {
    if (!text.empty()) text += ", ";
    text += named.info.name;
  }
  return text;
}

float HalfToFloat(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000U) << 16;
  const uint32_t exponent = (half >> 10) & 31U;
  const uint32_t fraction = half & 1023U;
  if (exponent == 0) {  // zero or subnormal: fraction * 2^-24, exact in f32
    const float value = static_cast<float>(fraction) * 0x1p-24F;
    return __builtin_bit_cast(float, __builtin_bit_cast(uint32_t, value) | sign);
  }
  const uint32_t wide = exponent == 31 ? 255U : exponent + 112;
  return __builtin_bit_cast(float, sign | wide << 23 | fraction << 13);
}

void Dequantize(TensorType type, const std::byte* in, size_t values, float* out) {
  const TypeInfo& info = InfoOf(type);
  CHECK(values % info.block_values == 0);
  const auto* bytes = reinterpret_cast<const uint8_t*>(in);
  if (type == TensorType::kF32) {
    memcpy(out, bytes, values * sizeof(float));
    return;
  }
  if (type == TensorType::kF16 || type == TensorType::kBf16) {
    for (size_t i = 0; i < values; ++i) {
      uint16_t bits;
      memcpy(&bits, bytes + 2 * i, sizeof(bits));
      out[i] = type == TensorType::kF16 ? HalfToFloat(bits) : Bf16ToFloat(bits);
    }
    return;
  }
  for (size_t i = 0; i < values; i += info.block_values) {
    Block(type, bytes, out + i);
    bytes += info.block_bytes;
  }
}

}  // namespace baton::model
