#include "src/text/tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <thread>

#include "src/text/ffi/baton_text.h"
#include "src/text/testing.h"

namespace baton::text {
namespace {

using Ids = std::vector<int32_t>;

std::unique_ptr<Tokenizer> Make(const TokenizerSpec& spec) {
  auto made = Tokenizer::Create(spec);
  EXPECT_TRUE(made.ok()) << made.status().ToString();
  return made.ok() ? std::move(*made) : nullptr;
}

TEST(Tokenizer, MergesAreAppliedBestFirst) {
  const auto tokenizer = Make(SmallSpec());
  const auto ids = tokenizer->Encode("a the", false);
  ASSERT_TRUE(ids.ok()) << ids.status().ToString();
  EXPECT_EQ(*ids, (Ids{kSmallFirstByte + 'a', kSmallThe}));
}

TEST(Tokenizer, EveryTextComesBackFromItsTokens) {
  const auto tokenizer = Make(SmallSpec());
  Rng rng(7);
  for (int i = 0; i < 500; ++i) {
    const std::string text = RandomText(rng, 40);
    const auto ids = tokenizer->Encode(text, i % 2 == 0);
    ASSERT_TRUE(ids.ok()) << ids.status().ToString();
    EXPECT_EQ(*tokenizer->DecodeBytes(*ids, true), text);
    EXPECT_EQ(*tokenizer->Decode(*ids, true), text);
  }
}

TEST(Tokenizer, ControlTokensAreParsedOnlyWhenAsked) {
  const auto tokenizer = Make(SmallSpec());
  EXPECT_EQ(*tokenizer->Encode("<|start|>a", true), (Ids{kSmallStart, kSmallFirstByte + 'a'}));
  const Ids spelled = *tokenizer->Encode("<|start|>a", false);
  EXPECT_EQ(std::ranges::count(spelled, kSmallStart), 0);
  EXPECT_EQ(*tokenizer->DecodeBytes(spelled, false), "<|start|>a");
}

TEST(Tokenizer, MergesCannotMakeAControlToken) {
  TokenizerSpec spec = SmallSpec();
  spec.merges.push_back("l l");
  spec.tokens.push_back("hell");
  spec.token_types.push_back(3);
  spec.merges.push_back("he ll");
  const auto made = Tokenizer::Create(spec);
  ASSERT_FALSE(made.ok());
  EXPECT_NE(made.status().message().find("'hell'"), std::string::npos) << made.status().message();
}

TEST(Tokenizer, AVocabularyWordIsTakenWholeOnlyIfItIsNoControlToken) {
  TokenizerSpec spec = SmallSpec();
  spec.pre = "llama-bpe";  // looks whole words up before the merges
  spec.tokens.insert(spec.tokens.end(), {"word", "ctrl"});
  spec.token_types.insert(spec.token_types.end(), {1, 3});
  const auto tokenizer = Make(spec);
  EXPECT_EQ(tokenizer->Encode("word", false)->size(), 1u);
  EXPECT_EQ(tokenizer->Encode("ctrl", false)->size(), 4u);
}

TEST(Tokenizer, UserDefinedTokensAreFoundInAnyText) {
  const auto tokenizer = Make(SmallSpec());
  EXPECT_EQ(*tokenizer->Encode("<tool>", false), Ids{kSmallTool});
  EXPECT_EQ(*tokenizer->Encode("<tool>", true), Ids{kSmallTool});
  EXPECT_EQ(*tokenizer->DecodeBytes(Ids{kSmallTool}, false), "<tool>");
}

TEST(Tokenizer, TheLongestControlTokenWins) {
  TokenizerSpec spec = SmallSpec();
  spec.tokens.push_back("<|stop|>");
  spec.token_types.push_back(3);
  const auto longest = static_cast<int32_t>(spec.tokens.size()) - 1;
  EXPECT_EQ(*Make(spec)->Encode("<|stop|>", true), Ids{longest});
}

TEST(Tokenizer, TextThatIsNotUtf8IsRefusedWithThePlace) {
  const auto tokenizer = Make(SmallSpec());
  for (const char* bad : {"ab\xFF", "ab\xC3", "ab\xED\xA0\x80", "ab\xC0\xAF"}) {
    const auto ids = tokenizer->Encode(bad, false);
    ASSERT_FALSE(ids.ok());
    EXPECT_EQ(ids.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(ids.status().message().find("at byte 2"), std::string::npos);
  }
}

TEST(Tokenizer, BytesOfACharacterThatSpansTokensAreExact) {
  const auto tokenizer = Make(SmallSpec());
  const Ids half = {kSmallFirstByte + 0xE2, kSmallFirstByte + 0x82};
  EXPECT_EQ(*tokenizer->DecodeBytes(half, false), "\xE2\x82");
  EXPECT_EQ(*tokenizer->Decode(half, false), "\uFFFD");
}

TEST(Tokenizer, ControlTokensGiveTextOnlyIfKept) {
  const auto tokenizer = Make(SmallSpec());
  EXPECT_EQ(*tokenizer->Decode(Ids{kSmallStart, kSmallThe, kSmallEnd}, false), " the");
  EXPECT_EQ(*tokenizer->Decode(Ids{kSmallStart, kSmallThe, kSmallEnd}, true),
            "<|start|> the<|end|>");
}

TEST(Tokenizer, IdsOutsideTheVocabularyAreRefused) {
  const auto tokenizer = Make(SmallSpec());
  for (const int32_t id : {-1, tokenizer->vocab_size(), INT32_MAX, INT32_MIN}) {
    const auto text = tokenizer->DecodeBytes(Ids{id}, true);
    ASSERT_FALSE(text.ok());
    EXPECT_NE(text.status().message().find(std::to_string(id)), std::string::npos);
  }
}

TEST(Tokenizer, APlainPromptBeginsWithBosOnlyWhereTheModelAsks) {
  TokenizerSpec spec = SmallSpec();
  EXPECT_EQ(*Make(spec)->EncodePrompt(" the"), Ids{kSmallThe});
  spec.add_bos = true;
  EXPECT_EQ(*Make(spec)->EncodePrompt(" the"), (Ids{kSmallStart, kSmallThe}));
  EXPECT_EQ(*Make(spec)->Encode(" the", true), Ids{kSmallThe});
}

TEST(Tokenizer, DigitsAreSplitAsTheModelFamilyDoes) {
  TokenizerSpec spec = SmallSpec();
  spec.merges.push_back("1 2");
  spec.tokens.push_back("12");
  spec.token_types.push_back(1);
  EXPECT_EQ(Make(spec)->Encode("12", false)->size(), 2u);  // each digit alone
  spec.pre = "gpt-2";
  EXPECT_EQ(Make(spec)->Encode("12", false)->size(), 1u);
  spec.pre = "llama-bpe";  // groups of three
  EXPECT_EQ(Make(spec)->Encode("12", false)->size(), 1u);
  EXPECT_EQ(Make(spec)->Encode("0012", false)->size(), 4u);
  spec.pre = "default";
  EXPECT_EQ(Make(spec)->Encode("12", false)->size(), 1u);
}

// What a hostile or broken file may say. Each is one clear error, none a crash.
TEST(Tokenizer, OddSpecsAreRefusedWithTheReason) {
  struct Case {
    std::string what;
    std::function<void(TokenizerSpec*)> change;
  };
  const std::vector<Case> cases = {
      {"kind 'llama'", [](TokenizerSpec* s) { s->kind = "llama"; }},
      {"pre-tokenizer 'klingon'", [](TokenizerSpec* s) { s->pre = "klingon"; }},
      {"vocabulary is empty",
       [](TokenizerSpec* s) {
         s->tokens.clear();
         s->token_types.clear();
         s->bos_id = s->eos_id = -1;
       }},
      {"no merges", [](TokenizerSpec* s) { s->merges.clear(); }},
      {"both 'he'", [](TokenizerSpec* s) { s->tokens[kSmallFirstByte] = "he"; }},
      {"token 5 is empty", [](TokenizerSpec* s) { s->tokens[5] = ""; }},
      {"merge 1 'he'", [](TokenizerSpec* s) { s->merges[1] = "he"; }},
      {"merge 0 'a b c'", [](TokenizerSpec* s) { s->merges[0] = "a b c"; }},
      {"merge 0 'q z'", [](TokenizerSpec* s) { s->merges[0] = "q z"; }},
      {"merge 2", [](TokenizerSpec* s) { s->merges[2] = "\xFF\xFE q"; }},
      {"token 7", [](TokenizerSpec* s) { s->tokens[7] = "\xFF"; }},
      {"token types", [](TokenizerSpec* s) { s->token_types.pop_back(); }},
      {"bos id 9999", [](TokenizerSpec* s) { s->bos_id = 9999; }},
      {"eos id 9999", [](TokenizerSpec* s) { s->eos_id = 9999; }},
      {"no bos id",
       [](TokenizerSpec* s) {
         s->bos_id = -1;
         s->add_bos = true;
       }},
  };
  for (const Case& c : cases) {
    TokenizerSpec spec = SmallSpec();
    c.change(&spec);
    const auto made = Tokenizer::Create(spec);
    ASSERT_FALSE(made.ok()) << c.what;
    EXPECT_EQ(made.status().code(), StatusCode::kInvalidArgument) << c.what;
    EXPECT_NE(made.status().message().find(c.what), std::string::npos) << made.status().message();
  }
}

TEST(Tokenizer, ASpecWithoutTokenTypesHasOrdinaryTokensOnly) {
  TokenizerSpec spec = SmallSpec();
  spec.token_types.clear();
  EXPECT_GT(Make(spec)->Encode("<|start|>", true)->size(), 1u);
}

// The library cannot give exact bytes, so DecodeBytes has a table of its own; where the library can
// decode, both must agree.
TEST(Tokenizer, DecodingAgreesWithTheLibrarysOwn) {
  const TokenizerSpec spec = SmallSpec();
  const auto tokenizer = Make(spec);
  std::vector<BatonTextSlice> tokens, merges;
  for (const auto& t : spec.tokens) tokens.push_back({t.data(), t.size()});
  for (const auto& m : spec.merges) merges.push_back({m.data(), m.size()});
  BatonTextSpec raw{};
  raw.tokens = tokens.data();
  raw.token_types = spec.token_types.data();
  raw.token_count = tokens.size();
  raw.merges = merges.data();
  raw.merge_count = merges.size();
  raw.pre = {spec.pre.data(), spec.pre.size()};
  raw.bos_id = raw.eos_id = -1;
  BatonTextTokenizer* library = nullptr;
  BatonTextBytes error{}, text{};
  ASSERT_EQ(baton_text_create(&raw, &library, &error), BATON_TEXT_OK);
  Rng rng(11);
  for (int i = 0; i < 300; ++i) {
    Ids ids(rng.Below(30));
    for (int32_t& id : ids) {
      id = kSmallFirstByte + static_cast<int32_t>(rng.Below(spec.tokens.size() - kSmallFirstByte));
    }
    ASSERT_EQ(baton_text_decode(library, ids.data(), ids.size(), &text, &error), BATON_TEXT_OK);
    EXPECT_EQ(*tokenizer->Decode(ids, false), std::string(text.data, text.size));
    baton_text_free_bytes(text);
  }
  baton_text_free(library);
}

TEST(Tokenizer, ThreadsShareOneWithoutALock) {
  TokenizerSpec spec = SmallSpec();
  spec.chat_template = "{% for m in messages %}<|start|>{{ m.content }}<|end|>{% endfor %}";
  const auto tokenizer = Make(spec);
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&tokenizer, t] {
      Rng rng(t % 2);  // two threads each meet the same words at the same time
      for (int i = 0; i < 60; ++i) {
        const std::string text = RandomText(rng, 30) + " the hello";
        const auto ids = tokenizer->Encode(text, false);
        ASSERT_TRUE(ids.ok());
        EXPECT_EQ(*tokenizer->Decode(*ids, false), text);
        const auto chat = tokenizer->EncodeChat(R"([{"role":"user","content":"a <|end|> the"}])");
        ASSERT_TRUE(chat.ok());
        EXPECT_EQ(*tokenizer->Decode(*chat, false), "a <|end|> the");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace baton::text
