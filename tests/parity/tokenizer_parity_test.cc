// Ids, texts and chat renderings against Hugging Face's tokenizer and Jinja 2
// (golden/tokenizer.json, made by make_tokenizer_golden.py). Exact, without exceptions.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "src/base/check.h"
#include "src/text/tokenizer.h"
#include "tests/parity/golden.h"

namespace baton::parity {
namespace {

using Ids = std::vector<int32_t>;

const text::TokenizerSpec& Spec() { return RealModel().tokenizer(); }

const text::Tokenizer& RealTokenizer() {
  static const auto tokenizer = [] {
    auto made = text::Tokenizer::Create(Spec());
    CHECK(made.ok(), made.status().ToString());
    return std::move(made).value();
  }();
  return *tokenizer;
}

const nlohmann::ordered_json& Golden() {
  static const nlohmann::ordered_json golden = ReadGolden("tokenizer.json");
  return golden;
}

TEST(TokenizerParity, EncodesEveryOddTextToTheSameIds) {
  ASSERT_EQ(Golden()["texts"].size(), 500u);
  for (const auto& row : Golden()["texts"]) {
    const auto text = row["text"].get<std::string>();
    const Ids plain = row["plain"].get<Ids>();
    const Ids special = row.contains("special") ? row["special"].get<Ids>() : plain;
    EXPECT_EQ(*RealTokenizer().Encode(text, false), plain) << row["text"];
    EXPECT_EQ(*RealTokenizer().Encode(text, true), special) << row["text"];
  }
}

TEST(TokenizerParity, DecodesEveryOddTextToTheSameText) {
  for (const auto& row : Golden()["texts"]) {
    const Ids ids = row.value("special", row["plain"]).get<Ids>();
    const auto want = row.value("decoded", row["text"]).get<std::string>();
    EXPECT_EQ(*RealTokenizer().Decode(ids, true), want) << row["text"];
    text::StreamDecoder stream(&RealTokenizer());
    std::string streamed;
    for (const int32_t id : ids) streamed += stream.Push(id);
    EXPECT_EQ(streamed + stream.Finish(), *RealTokenizer().Decode(ids, false)) << row["text"];
  }
}

TEST(TokenizerParity, LlamaCppAgreedWithTheGoldenIds) {
  for (const auto& row : Golden()["texts"]) {
    for (const char* field : {"llama_cpp_plain", "llama_cpp_special", "llama_cpp_decoded"}) {
      EXPECT_FALSE(row.contains(field)) << row["text"];
    }
  }
}

TEST(TokenizerParity, RendersAndEncodesEveryConversationTheSame) {
  ASSERT_EQ(Golden()["chats"].size(), 20u);
  for (const auto& row : Golden()["chats"]) {
    text::TokenizerSpec spec = Spec();
    if (const auto other = row["template"].get<std::string>(); !other.empty()) {
      spec.chat_template = other;
    }
    const auto made = text::Tokenizer::Create(spec);
    ASSERT_TRUE(made.ok()) << made.status().ToString();
    const text::Tokenizer& tokenizer = **made;
    const std::string messages = row["messages"].dump();
    const auto without = tokenizer.ApplyChatTemplate(messages, false);
    ASSERT_TRUE(without.ok()) << without.status().ToString();
    EXPECT_EQ(*without, row["text"].get<std::string>());
    const auto with = tokenizer.ApplyChatTemplate(messages, true);
    ASSERT_TRUE(with.ok()) << with.status().ToString();
    EXPECT_EQ(*with, row["text_with_prompt"].get<std::string>());
    EXPECT_EQ(*tokenizer.EncodeChat(messages), row["ids"].get<Ids>()) << messages;
  }
}

}  // namespace
}  // namespace baton::parity
