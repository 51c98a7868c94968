// The real model through every backend: text that makes sense, and agreement with the oracle.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "src/backend/probe.h"
#include "src/backend/testing.h"
#include "src/model/loader.h"

namespace baton::backend {
namespace {

const model::Model& RealModel() {
  static const std::unique_ptr<model::Model> model = [] {
    auto loaded = model::LoadModel(kSmolLm2Path);
    CHECK(loaded.ok(), loaded.status().ToString());
    return std::move(loaded).value();
  }();
  return *model;
}

// Ids of whole vocabulary entries, in the file's byte-level spelling (Ġ is a blank).
std::vector<int32_t> Ids(const std::vector<std::string>& words) {
  const auto& tokens = RealModel().tokenizer().tokens;
  std::vector<int32_t> ids;
  for (const std::string& word : words) {
    const auto it = std::find(tokens.begin(), tokens.end(), word);
    CHECK(it != tokens.end(), word);
    ids.push_back(static_cast<int32_t>(it - tokens.begin()));
  }
  return ids;
}

std::string Spelling(const std::vector<int32_t>& ids) {
  std::string text;
  for (const int32_t id : ids) text += RealModel().tokenizer().tokens[static_cast<size_t>(id)];
  return text;
}

const std::vector<std::string> kFrance = {"The", "Ġcapital", "Ġof", "ĠFrance", "Ġis"};

BackendOptions Options(DType dtype) {
  return {.dtype = dtype, .kv_blocks = 8, .threads = 2, .limits = {8, 64}};
}

TEST(RealModelTest, ReferenceNamesTheCapitalOfFrance) {
  TestBackend backend("reference", &RealModel(), Options(DType::kF32));
  const auto drawn = backend.Greedy(Ids(kFrance), 6, BlocksFor(32, 16));
  EXPECT_EQ(Spelling({drawn.begin(), drawn.begin() + 2}), "ĠParis.") << Spelling(drawn);
}

TEST(RealModelTest, CpuNamesTheCapitalOfFrance) {
  for (const DType dtype : {DType::kF32, DType::kBf16}) {
    TestBackend backend("cpu", &RealModel(), Options(dtype));
    const auto drawn = backend.Greedy(Ids(kFrance), 6, BlocksFor(32, 16));
    EXPECT_EQ(Spelling({drawn.begin(), drawn.begin() + 2}), "ĠParis.") << Spelling(drawn);
  }
}

// Logits of this model are about 10 in size.
TEST(RealModelTest, CpuLogitsMatchTheReference) {
  const std::vector<int32_t> prompt = Ids(kFrance);
  TestBackend reference("reference", &RealModel(), Options(DType::kF32));
  const auto want = ProbeLogits(*reference, prompt);
  ASSERT_TRUE(want.ok());
  for (const auto& [dtype, bound] : {std::pair{DType::kF32, 2e-3F}, {DType::kBf16, 1.0F}}) {
    TestBackend cpu("cpu", &RealModel(), Options(dtype));
    const auto got = ProbeLogits(*cpu, prompt);
    ASSERT_TRUE(got.ok());
    ASSERT_EQ(got->size(), want->size());
    float most = 0;
    for (size_t i = 0; i < want->size(); ++i) {
      most = std::max(most, std::abs((*got)[i] - (*want)[i]));
    }
    EXPECT_LT(most, bound) << DTypeName(dtype);
    RecordProperty(DTypeName(dtype) + "_most_apart", std::to_string(most));
  }
}

TEST(RealModelTest, ChunkedPromptsDrawTheSameTokens) {
  TestBackend backend("cpu", &RealModel(), Options(DType::kF32));
  const std::vector<int32_t> prompt = Ids(kFrance);
  const auto want = backend.Greedy(prompt, 12, BlocksFor(32, 16));
  EXPECT_EQ(backend.Greedy(prompt, 12, BlocksFor(32, 16, 3), 2), want);
}

}  // namespace
}  // namespace baton::backend
