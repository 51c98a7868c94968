// The real model through every backend: text that makes sense, and agreement with the oracle.
#include <gtest/gtest.h>

#include <algorithm>

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

}  // namespace
}  // namespace baton::backend
