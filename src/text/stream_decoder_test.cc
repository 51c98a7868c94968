#include <gtest/gtest.h>

#include <algorithm>

#include "src/text/testing.h"
#include "src/text/tokenizer.h"
#include "src/text/utf8.h"

namespace baton::text {
namespace {

using Ids = std::vector<int32_t>;

std::unique_ptr<Tokenizer> Small() { return std::move(*Tokenizer::Create(SmallSpec())); }

bool IsWellFormed(const std::string& text) {
  std::string copy;
  AppendUtf8Lossy(text, true, &copy);
  return copy == text;
}

std::string Stream(const Tokenizer& tokenizer, const Ids& ids) {
  StreamDecoder decoder(&tokenizer);
  std::string text;
  for (const int32_t id : ids) {
    const std::string piece = decoder.Push(id);
    EXPECT_TRUE(IsWellFormed(piece));
    text += piece;
  }
  return text + decoder.Finish();
}

TEST(StreamDecoder, PiecesAreTheOneShotTextForRandomTokens) {
  const auto tokenizer = Small();
  Rng rng(5);
  for (int i = 0; i < 1000; ++i) {
    Ids ids(rng.Below(24));
    for (int32_t& id : ids) id = static_cast<int32_t>(rng.Below(tokenizer->vocab_size()));
    EXPECT_EQ(Stream(*tokenizer, ids), *tokenizer->Decode(ids, false));
  }
}

TEST(StreamDecoder, PiecesAreTheTextForCharactersOfEveryLength) {
  const auto tokenizer = Small();
  Rng rng(6);
  for (int i = 0; i < 300; ++i) {
    const std::string text = RandomText(rng, 20);
    EXPECT_EQ(Stream(*tokenizer, *tokenizer->Encode(text, false)), text);
  }
}

TEST(StreamDecoder, ACharacterComesWithItsLastByteAndNotLater) {
  const auto tokenizer = Small();
  StreamDecoder decoder(tokenizer.get());
  EXPECT_EQ(decoder.Push(kSmallFirstByte + 0xF0), "");
  EXPECT_EQ(decoder.Push(kSmallFirstByte + 0x9F), "");
  EXPECT_EQ(decoder.Push(kSmallFirstByte + 0x98), "");
  EXPECT_EQ(decoder.Push(kSmallFirstByte + 0x80), "\U0001F600");
  EXPECT_EQ(decoder.Push(kSmallFirstByte + 'a'), "a");
  EXPECT_EQ(decoder.Finish(), "");
}

TEST(StreamDecoder, AnUnfinishedSequenceBecomesAReplacementAtTheEnd) {
  const auto tokenizer = Small();
  StreamDecoder decoder(tokenizer.get());
  EXPECT_EQ(decoder.Push(kSmallFirstByte + 0xE2), "");
  EXPECT_EQ(decoder.Push(kSmallFirstByte + 0x82), "");
  EXPECT_EQ(decoder.Finish(), "\uFFFD");
  EXPECT_EQ(decoder.Finish(), "");
}

TEST(StreamDecoder, ControlTokensAndPaddingIdsGiveNothing) {
  const auto tokenizer = Small();
  StreamDecoder decoder(tokenizer.get());
  EXPECT_EQ(decoder.Push(kSmallStart), "");
  EXPECT_EQ(decoder.Push(tokenizer->vocab_size()), "");
  EXPECT_EQ(decoder.Push(-1), "");
  EXPECT_EQ(decoder.Finish(), "");
}

// Unicode 15, section 3.9, table 3-8 and its neighbours; the same counts as Python and Rust give.
TEST(Utf8, EachMaximalSubpartBecomesOneReplacement) {
  const std::pair<std::string, int> cases[] = {
      {"\xF1\x80\x80\xE1\x80\xC2", 3},
      {"\xC0\xAF", 2},
      {"\xE0\x9F\xBF", 3},
      {"\xED\xA0\x80", 3},
      {"\xF4\x90\x80\x80", 4},
      {"\xF0\x90\x80", 1},
      {"\xFF", 1},
      {"\x80\x80", 2},
      {"\xF0\x80\x80\x80", 4},
  };
  for (const auto& [bytes, replacements] : cases) {
    std::string text;
    EXPECT_EQ(AppendUtf8Lossy("a" + bytes + "b", true, &text), bytes.size() + 2);
    std::string want = "a";
    for (int i = 0; i < replacements; ++i) want += "\uFFFD";
    EXPECT_EQ(text, want + "b");
  }
}

}  // namespace
}  // namespace baton::text
