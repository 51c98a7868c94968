// Values against those of the PyPI package `gguf` (testdata/make_golden.py).
#include "src/model/tensor_types.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "src/model/gguf.h"
#include "src/model/mapped_file.h"

namespace baton::model {
namespace {

std::vector<std::byte> FromHex(const std::string& hex) {
  std::vector<std::byte> bytes;
  for (size_t i = 0; i < hex.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

TEST(TensorTypesTest, EveryTypeMatchesTheGoldenBlocks) {
  std::ifstream golden("src/model/testdata/blocks.txt");
  std::set<uint32_t> seen;
  uint32_t number;
  std::string raw;
  std::string want;
  while (golden >> number >> raw >> want) {
    const TypeInfo* info = InfoOf(number);
    ASSERT_NE(info, nullptr) << number;
    const std::vector<std::byte> bytes = FromHex(raw);
    ASSERT_EQ(bytes.size(), info->block_bytes);
    std::vector<float> values(info->block_values);
    Dequantize(static_cast<TensorType>(number), bytes.data(), values.size(), values.data());
    ASSERT_EQ(want.size(), 8 * values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      const auto bits = static_cast<uint32_t>(std::stoul(want.substr(8 * i, 8), nullptr, 16));
      const float expected = __builtin_bit_cast(float, bits);
      // The order of the products may differ by a rounding or two.
      ASSERT_NEAR(values[i], expected, 3e-7F * std::abs(expected) + 1e-9F) << info->name << i;
    }
    seen.insert(number);
  }
  EXPECT_EQ(seen.size(), 13U) << "golden file lacks types, or could not be read";
}

void ExpectSums(const std::string& model, const std::string& golden_path, size_t tensors) {
  const auto mapped = MappedFile::Open(model);
  ASSERT_TRUE(mapped.ok()) << mapped.status().ToString();
  const auto file = Gguf::Parse((*mapped)->bytes(), model);
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  EXPECT_EQ(file->tensors().size(), tensors);
  std::ifstream golden(golden_path);
  std::string name;
  uint32_t type;
  double want_size;
  double want_place;
  size_t checked = 0;
  for (; golden >> name >> type >> want_size >> want_place; ++checked) {
    const GgufTensor* tensor = file->FindTensor(name);
    ASSERT_NE(tensor, nullptr) << name;
    ASSERT_EQ(static_cast<uint32_t>(tensor->type), type);
    const TypeInfo& info = InfoOf(tensor->type);
    const size_t row_bytes = tensor->columns() / info.block_values * info.block_bytes;
    std::vector<float> row(tensor->columns());
    double size = 0;
    double place = 0;
    uint64_t index = 0;
    for (uint64_t r = 0; r < tensor->rows(); ++r) {
      Dequantize(tensor->type, tensor->data.data() + r * row_bytes, row.size(), row.data());
      for (const float value : row) {
        size += std::abs(static_cast<double>(value));
        place += value * (static_cast<double>((index++ * 2654435761U) & UINT32_MAX) * 0x1p-32);
      }
    }
    ASSERT_NEAR(size, want_size, 1e-9 * want_size) << name;
    ASSERT_NEAR(place, want_place, 1e-9 * want_size) << name;
  }
  EXPECT_EQ(checked, tensors);
}

TEST(TensorTypesTest, EveryTensorOfTheLlamaFileMatches) {
  ExpectSums("external/smollm2/model.gguf", "src/model/testdata/smollm2.sums", 272);
}

TEST(TensorTypesTest, EveryTensorOfTheKQuantFileMatches) {
  ExpectSums("external/gemma3_270m/model.gguf", "src/model/testdata/gemma3_270m.sums", 236);
}

TEST(TensorTypesTest, Bf16RoundsToNearestEvenAndKeepsSpecials) {
  EXPECT_EQ(FloatToBf16(1.0F), 0x3f80);
  EXPECT_EQ(FloatToBf16(__builtin_bit_cast(float, 0x3f808000U)), 0x3f80);  // tie to even
  EXPECT_EQ(FloatToBf16(__builtin_bit_cast(float, 0x3f818000U)), 0x3f82);  // tie to even
  EXPECT_EQ(FloatToBf16(__builtin_bit_cast(float, 0x3f808001U)), 0x3f81);
  EXPECT_EQ(FloatToBf16(INFINITY), 0x7f80);
  EXPECT_EQ(FloatToBf16(-INFINITY), 0xff80);
  EXPECT_TRUE(std::isnan(Bf16ToFloat(FloatToBf16(__builtin_bit_cast(float, 0x7f800001U)))));
  EXPECT_TRUE(std::isinf(HalfToFloat(0x7c00)));
  EXPECT_TRUE(std::isnan(HalfToFloat(0x7c01)));
  EXPECT_EQ(HalfToFloat(0x8001), -0x1p-24F);
}

}  // namespace
}  // namespace baton::model
