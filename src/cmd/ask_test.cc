#include "src/cmd/ask.h"

#include <gtest/gtest.h>

namespace baton::cmd {
namespace {

wire::TokenRecord Tokens(uint32_t attempt, uint64_t sequence, const std::string& text) {
  wire::TokenRecord record;
  record.attempt = Attempt(attempt);
  record.sequence = sequence;
  record.text = text;
  return record;
}

TEST(TextStreamTest, ShowsEachPieceOnce) {
  TextStream stream;
  EXPECT_EQ(stream.Add(Tokens(1, 0, "one ")), "one ");
  EXPECT_EQ(stream.Add(Tokens(1, 1, "two")), "two");
  EXPECT_EQ(stream.Add(Tokens(1, 1, "two")), "");
  EXPECT_EQ(stream.Finish("one two three"), " three");
  EXPECT_EQ(stream.Finish("one two"), "");
}

TEST(TextStreamTest, AHigherAttemptBeginsAgainWithoutShowingTextTwice) {
  TextStream stream;
  EXPECT_EQ(stream.Add(Tokens(1, 0, "one two")), "one two");
  EXPECT_EQ(stream.Add(Tokens(2, 0, "one ")), "");
  EXPECT_EQ(stream.Add(Tokens(1, 1, " never")), "");
  EXPECT_EQ(stream.Add(Tokens(2, 1, "two three")), " three");
  EXPECT_EQ(stream.Finish("one two three"), "");
}

TEST(TextStreamTest, WithoutRecordsTheWholeAnswerIsNew) {
  EXPECT_EQ(TextStream().Finish("all of it"), "all of it");
}

}  // namespace
}  // namespace baton::cmd
