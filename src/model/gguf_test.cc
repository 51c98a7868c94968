#include "src/model/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>

namespace baton::model {
namespace {

using testing::HasSubstr;

// Builds GGUF bytes, right or wrong.
class Builder {
 public:
  template <typename T>
  Builder& Put(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
    return *this;
  }
  Builder& Text(std::string_view text) {
    Put<uint64_t>(text.size());
    bytes_ += text;
    return *this;
  }
  Builder& Header(uint64_t tensors, uint64_t metadata, uint32_t version = 3) {
    bytes_ += "GGUF";
    return Put(version).Put(tensors).Put(metadata);
  }
  Builder& Key(std::string_view key, uint32_t type) { return Text(key).Put(type); }
  Builder& Tensor(std::string_view name, std::vector<uint64_t> shape, uint32_t type,
                  uint64_t offset) {
    Text(name).Put(static_cast<uint32_t>(shape.size()));
    for (const uint64_t size : shape) Put(size);
    return Put(type).Put(offset);
  }
  Builder& Data(size_t bytes, char fill = 0) {
    bytes_.resize((bytes_.size() + 31) / 32 * 32);
    bytes_.append(bytes, fill);
    return *this;
  }
  const std::string& bytes() const { return bytes_; }
  Result<Gguf> Parse() const {
    return Gguf::Parse({reinterpret_cast<const std::byte*>(bytes_.data()), bytes_.size()},
                       "m.gguf");
  }

 private:
  std::string bytes_;
};

constexpr uint32_t kU32 = 4;
constexpr uint32_t kString = 8;
constexpr uint32_t kArray = 9;

TEST(GgufTest, ReadsEveryScalarType) {
  Builder b;
  b.Header(0, 12);
  b.Key("u8", 0).Put<uint8_t>(200).Key("i8", 1).Put<int8_t>(-3);
  b.Key("u16", 2).Put<uint16_t>(60000).Key("i16", 3).Put<int16_t>(-300);
  b.Key("u32", 4).Put<uint32_t>(4000000000U).Key("i32", 5).Put<int32_t>(-70000);
  b.Key("f32", 6).Put<float>(1.5F).Key("bool", 7).Put<uint8_t>(1);
  b.Key("text", 8).Text("abc").Key("u64", 10).Put<uint64_t>(1ULL << 60);
  b.Key("i64", 11).Put<int64_t>(-(1LL << 60)).Key("f64", 12).Put<double>(-2.5);
  const auto file = b.Parse();
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  EXPECT_EQ(file->Uint("u8", 255).value(), 200U);
  EXPECT_EQ(std::get<int64_t>(*file->Find("i8")), -3);
  EXPECT_EQ(file->Uint("u16", UINT64_MAX).value(), 60000U);
  EXPECT_EQ(std::get<int64_t>(*file->Find("i16")), -300);
  EXPECT_EQ(file->Uint("u32", UINT64_MAX).value(), 4000000000U);
  EXPECT_EQ(std::get<int64_t>(*file->Find("i32")), -70000);
  EXPECT_EQ(file->Float("f32").value(), 1.5);
  EXPECT_EQ(std::get<bool>(*file->Find("bool")), true);
  EXPECT_EQ(file->String("text").value(), "abc");
  EXPECT_EQ(file->Uint("u64", UINT64_MAX).value(), 1ULL << 60);
  EXPECT_EQ(std::get<int64_t>(*file->Find("i64")), -(1LL << 60));
  EXPECT_EQ(file->Float("f64").value(), -2.5);
  EXPECT_FALSE(file->Uint("u16", 59999).ok());
  EXPECT_FALSE(file->Uint("i8", 100).ok());
  EXPECT_FALSE(file->Uint("text", 100).ok());
  EXPECT_FALSE(file->Float("absent").ok());
}

TEST(GgufTest, ReadsArraysAndTensors) {
  Builder b;
  b.Header(2, 2);
  b.Key("texts", kArray).Put(kString).Put<uint64_t>(2).Text("a").Text("bc");
  b.Key("numbers", kArray).Put<uint32_t>(5).Put<uint64_t>(2).Put<int32_t>(-1).Put<int32_t>(9);
  b.Tensor("a", {4, 2}, 0, 0).Tensor("b", {32}, 8, 32).Data(66, 1);
  const auto file = b.Parse();
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  const auto& texts = std::get<GgufArray>(*file->Find("texts"));
  EXPECT_EQ(std::get<std::vector<std::string_view>>(texts)[1], "bc");
  const auto& numbers = std::get<GgufArray>(*file->Find("numbers"));
  EXPECT_EQ(std::get<std::vector<int64_t>>(numbers), (std::vector<int64_t>{-1, 9}));
  const GgufTensor* a = file->FindTensor("a");
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(a->rows(), 2U);
  EXPECT_EQ(a->columns(), 4U);
  EXPECT_EQ(a->data.size(), 32U);
  EXPECT_EQ(file->FindTensor("b")->data.size(), 34U);
  EXPECT_EQ(file->FindTensor("c"), nullptr);
}

struct Hostile {
  const char* name;
  std::function<void(Builder&)> build;
  const char* why;
};

class HostileTest : public testing::TestWithParam<Hostile> {};

TEST_P(HostileTest, IsRefusedWithFileOffsetAndCause) {
  Builder b;
  GetParam().build(b);
  const auto file = b.Parse();
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(file.status().message(), HasSubstr("m.gguf at byte "));
  EXPECT_THAT(file.status().message(), HasSubstr(GetParam().why));
}

constexpr uint64_t kHuge = UINT64_MAX / 2;
INSTANTIATE_TEST_SUITE_P(
    Files, HostileTest,
    testing::Values(
        Hostile{"Empty", [](Builder&) {}, "too short"},
        Hostile{"OtherMagic", [](Builder& b) { b.Put<uint64_t>(0x1234); }, "does not begin"},
        Hostile{"OtherVersion", [](Builder& b) { b.Header(0, 0, 1); }, "version 1"},
        Hostile{"HugeTensorCount", [](Builder& b) { b.Header(kHuge, 0); }, "tensors cannot be"},
        Hostile{"HugeMetadataCount", [](Builder& b) { b.Header(0, kHuge); }, "entries cannot be"},
        Hostile{"HugeKey", [](Builder& b) { b.Header(0, 1).Put<uint64_t>(UINT64_MAX).Data(64); },
                "ends outside the file"},
        Hostile{"LongKey",
                [](Builder& b) { b.Header(0, 1).Text(std::string(70000, 'k')).Data(64); },
                "longer than 65535"},
        Hostile{"HugeArray",
                [](Builder& b) {
                  b.Header(0, 1).Key("k", kArray).Put(kU32).Put<uint64_t>(kHuge).Data(64);
                },
                "longer than"},
        Hostile{"ArrayPastTheEnd",
                [](Builder& b) {
                  b.Header(0, 1).Key("k", kArray).Put(kString).Put<uint64_t>(1 << 20).Data(64);
                },
                "ends outside the file"},
        Hostile{"ArrayOfArrays",
                [](Builder& b) {
                  b.Header(0, 1).Key("k", kArray).Put(kArray).Put<uint64_t>(1).Data(64);
                },
                "array of arrays"},
        Hostile{"UnknownValueType", [](Builder& b) { b.Header(0, 1).Key("k", 13).Data(64); },
                "value type 13"},
        Hostile{"BoolOfTwo", [](Builder& b) { b.Header(0, 1).Key("k", 7).Put<uint8_t>(2); },
                "bool holds 2"},
        Hostile{"KeyTwice",
                [](Builder& b) { b.Header(0, 2).Key("k", kU32).Put(1U).Key("k", kU32).Put(2U); },
                "'k' occurs twice"},
        Hostile{"TensorTwice",
                [](Builder& b) { b.Header(2, 0).Tensor("t", {1}, 0, 0).Tensor("t", {1}, 0, 0); },
                "'t' occurs twice"},
        Hostile{"NoDimensions", [](Builder& b) { b.Header(1, 0).Tensor("t", {}, 0, 0).Data(8); },
                "0 dimensions"},
        Hostile{"ZeroSize",
                [](Builder& b) {
                  b.Header(1, 0).Tensor("t", {4, 0}, 0, 0);
                },
                "empty or an overflowing"},
        Hostile{"OverflowingShape",
                [](Builder& b) {
                  b.Header(1, 0).Tensor("t", {1ULL << 40, 1ULL << 40}, 0, 0);
                },
                "overflowing shape"},
        Hostile{"OverflowingBytes",
                [](Builder& b) { b.Header(1, 0).Tensor("t", {1ULL << 63}, 0, 0); },
                "overflowing size"},
        Hostile{"UnknownTensorType", [](Builder& b) { b.Header(1, 0).Tensor("t", {256}, 99, 0); },
                "type 99"},
        Hostile{"RowOfHalfABlock", [](Builder& b) { b.Header(1, 0).Tensor("t", {33}, 8, 0); },
                "multiple of 32"},
        Hostile{"OddOffset", [](Builder& b) { b.Header(1, 0).Tensor("t", {4}, 0, 8).Data(64); },
                "not a multiple of 32"},
        Hostile{"TensorPastTheEnd",
                [](Builder& b) { b.Header(1, 0).Tensor("t", {4}, 0, 0).Data(15); },
                "ends outside the file"},
        Hostile{"HugeOffset",
                [](Builder& b) { b.Header(1, 0).Tensor("t", {4}, 0, ~31ULL).Data(64); },
                "ends outside the file"},
        Hostile{"BadAlignment",
                [](Builder& b) { b.Header(0, 1).Key("general.alignment", kU32).Put(24U); },
                "not a power of two"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(GgufTest, EveryTruncationIsRefused) {
  Builder b;
  b.Header(1, 2).Key("a", kString).Text("x").Key("b", kArray).Put(kU32).Put<uint64_t>(1).Put(1U);
  b.Tensor("t", {32}, 8, 0).Data(34, 1);
  ASSERT_TRUE(b.Parse().ok());
  for (size_t size = 0; size < b.bytes().size(); ++size) {
    const auto* data = reinterpret_cast<const std::byte*>(b.bytes().data());
    // A copy of exactly that size, so that a sanitizer sees any read past it.
    const std::vector<std::byte> cut(data, data + size);
    const auto file = Gguf::Parse(cut, "m.gguf");
    ASSERT_FALSE(file.ok()) << size;
    ASSERT_EQ(file.status().code(), StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace baton::model
