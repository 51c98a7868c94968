#include "src/model/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>

namespace baton::model {
namespace {

using testing::HasSubstr;

constexpr char kSmolLm2[] = "external/smollm2/model.gguf";

Config Tiny() {
  Config config;
  config.name = "tiny";
  config.layers = 2;
  config.hidden = 12;
  config.heads = 3;
  config.kv_heads = 1;
  config.head_dim = 4;
  config.rope_dims = 4;
  config.mlp = 20;
  config.vocab = 11;
  config.context = 64;
  return config;
}

TEST(LoaderTest, ReadsTheRealModel) {
  const auto model = LoadModel(kSmolLm2);
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  const Config& c = (*model)->config();
  EXPECT_EQ(c.layers, 30U);
  EXPECT_EQ(c.hidden, 576U);
  EXPECT_EQ(c.heads, 9U);
  EXPECT_EQ(c.kv_heads, 3U);
  EXPECT_EQ(c.head_dim, 64U);
  EXPECT_EQ(c.mlp, 1536U);
  EXPECT_EQ(c.vocab, 49152U);
  EXPECT_EQ(c.context, 8192U);
  EXPECT_EQ(c.rope_base, 100000.0F);
  EXPECT_TRUE(c.tied_output);
  EXPECT_EQ(c.end_id, 2);
  EXPECT_THAT(c.end_ids, testing::UnorderedElementsAre(0, 2));
  EXPECT_EQ(c.weights_hash.size(), 32U);
  const text::TokenizerSpec& spec = (*model)->tokenizer();
  EXPECT_EQ(spec.kind, "gpt2");
  EXPECT_EQ(spec.pre, "smollm");
  EXPECT_EQ(spec.tokens.size(), 49152U);
  EXPECT_EQ(spec.tokens[2], "<|im_end|>");
  EXPECT_EQ(spec.merges.size(), 48900U);
  EXPECT_THAT(spec.chat_template, HasSubstr("<|im_start|>"));
}

TEST(LoaderTest, RefusesWhatIsNoModelInOneLine) {
  EXPECT_EQ(LoadModel("/no/such/file").status().code(), StatusCode::kNotFound);
  const std::string path = std::string(getenv("TEST_TMPDIR")) + "/notes.txt";
  std::ofstream(path) << "These are notes, not a model.\n";
  const Status notes = LoadModel(path).status();
  EXPECT_EQ(notes.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(notes.message(), HasSubstr(path));
  EXPECT_THAT(notes.message(), HasSubstr("not a GGUF file"));
  EXPECT_EQ(notes.message().find('\n'), std::string::npos);
  const Status gemma = LoadModel("external/gemma3_270m/model.gguf").status();
  EXPECT_THAT(gemma.message(), HasSubstr("architecture 'gemma3' is not supported"));
  EXPECT_EQ(LoadModel(getenv("TEST_TMPDIR")).status().code(), StatusCode::kInvalidArgument);
}

TEST(ModelTest, DummyRepeatsWithItsSeedAndDiffersWithAnother) {
  const auto one = MakeDummy(Tiny(), 1);
  const auto same = MakeDummy(Tiny(), 1);
  const auto other = MakeDummy(Tiny(), 2);
  ASSERT_TRUE(one.ok() && same.ok() && other.ok());
  ASSERT_TRUE(CheckLlama(**one).ok());
  const auto values = (*one)->Get("blk.1.ffn_up.weight").ReadAll();
  EXPECT_EQ(values, (*same)->Get("blk.1.ffn_up.weight").ReadAll());
  EXPECT_NE(values, (*other)->Get("blk.1.ffn_up.weight").ReadAll());
  EXPECT_NE(values, (*one)->Get("blk.0.ffn_up.weight").ReadAll());
  // Rows read one by one are the rows of the whole.
  std::vector<float> row(12);
  (*one)->Get("blk.1.ffn_up.weight").ReadRows(7, 1, row.data());
  EXPECT_TRUE(std::equal(row.begin(), row.end(), values.begin() + 7 * 12));
}

TEST(ModelTest, ChangingACopyLeavesTheOriginal) {
  const auto model = MakeDummy(Tiny(), 1);
  ASSERT_TRUE(model.ok());
  Model copy = **model;
  copy.config().rope_base = 1;
  copy.Set("output_norm.weight", Tensor::Owned(1, 12, std::vector<float>(12, 3.0F)));
  EXPECT_EQ(copy.Get("output_norm.weight").ReadAll()[5], 3.0F);
  EXPECT_NE((*model)->Get("output_norm.weight").ReadAll()[5], 3.0F);
  EXPECT_EQ((*model)->config().rope_base, 10000.0F);
}

TEST(ModelTest, CheckNamesTheTensorThatIsWrong) {
  const auto model = MakeDummy(Tiny(), 1);
  ASSERT_TRUE(model.ok());
  Model copy = **model;
  copy.Set("blk.1.attn_q.weight", Tensor::Random(3, 3, 1, 0, 1));
  EXPECT_THAT(CheckLlama(copy).message(),
              HasSubstr("'blk.1.attn_q.weight' is 3 x 3, expected 12 x 12"));
  copy = **model;
  copy.config().layers = 3;
  EXPECT_THAT(CheckLlama(copy).message(), HasSubstr("lacks tensor 'blk.2."));
}

TEST(ModelTest, ShapesThatAreNotSaneAreRefused) {
  Config config = Tiny();
  config.kv_heads = 2;
  EXPECT_EQ(MakeDummy(config, 1).status().code(), StatusCode::kInvalidArgument);
  config = Tiny();
  config.rope_dims = 6;
  EXPECT_EQ(MakeDummy(config, 1).status().code(), StatusCode::kInvalidArgument);
  config = Tiny();
  config.hidden = 0;
  EXPECT_EQ(MakeDummy(config, 1).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace baton::model
