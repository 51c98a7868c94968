#include "src/batch/reader.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "src/batch/seen_ids.h"

namespace baton::batch {
namespace {

// Hands `text` out in pieces of `piece` bytes.
ReadFn FromText(std::string text, size_t piece) {
  auto at = std::make_shared<size_t>(0);
  return [text = std::move(text), piece, at](char* buffer, size_t size) -> Result<size_t> {
    const size_t bytes = std::min({piece, size, text.size() - *at});
    std::memcpy(buffer, text.data() + *at, bytes);
    *at += bytes;
    return bytes;
  };
}

std::vector<RawLine> ReadAll(const std::string& text, size_t line_bytes_max = 100,
                             size_t piece = 7) {
  LineReader reader(FromText(text, piece), line_bytes_max);
  std::vector<RawLine> lines;
  for (;;) {
    auto line = reader.Next();
    EXPECT_TRUE(line.ok());
    if (!line.ok() || !line->has_value()) return lines;
    lines.push_back(**line);
  }
}

TEST(LineReaderTest, LinesAreNumberedFromOneBlankOnesIncluded) {
  const auto lines = ReadAll("a\n\nb\n");
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[1].text, "");
  EXPECT_EQ(lines[2].number, 3u);
  EXPECT_EQ(lines[2].text, "b");
}

TEST(LineReaderTest, AnEmptyFileHasNoLine) { EXPECT_TRUE(ReadAll("").empty()); }

TEST(LineReaderTest, AMissingFinalNewlineLosesNothing) {
  LineReader reader(FromText("a\nlast", 3), 10);
  ASSERT_TRUE(reader.Next().ok());
  EXPECT_FALSE(reader.last_line_torn());
  const auto last = reader.Next();
  EXPECT_EQ((*last)->text, "last");
  EXPECT_TRUE(reader.last_line_torn());
  EXPECT_FALSE(reader.Next()->has_value());
}

TEST(LineReaderTest, ByteOrderMarkAndCarriageReturnsGoAway) {
  const auto lines = ReadAll("\xef\xbb\xbf{}\r\n\xef\xbb\xbfx\r\n\r\n");
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0].text, "{}");
  EXPECT_EQ(lines[1].text, "\xef\xbb\xbfx") << "a mark in the middle is no mark";
  EXPECT_EQ(lines[2].text, "");
}

TEST(LineReaderTest, ALineAtTheLimitPassesAndOnePastItIsSkippedWhole) {
  for (const size_t piece : {1, 3, 64, 1000}) {
    const std::string at(10, 'a');
    const std::string past(11, 'b');
    const auto lines = ReadAll(at + "\r\n" + past + "\nc\n" + std::string(500, 'd'), 10, piece);
    ASSERT_EQ(lines.size(), 4u) << piece;
    EXPECT_EQ(lines[0].text, at);
    EXPECT_TRUE(lines[1].too_long);
    EXPECT_TRUE(lines[1].text.empty());
    EXPECT_EQ(lines[1].bytes, 12u);
    EXPECT_EQ(lines[2].text, "c");
    EXPECT_TRUE(lines[3].too_long);
    EXPECT_EQ(lines[3].bytes, 500u);
  }
}

TEST(LineReaderTest, MissingFilesAndDirectoriesAreNamed) {
  const std::string folder = std::getenv("TEST_TMPDIR");
  const auto directory = OpenToRead(folder);
  EXPECT_EQ(directory.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(directory.status().message().find("is a directory"), std::string::npos);
  EXPECT_EQ(OpenToRead(folder + "/none").status().code(), StatusCode::kNotFound);
}

TEST(SeenIdsTest, EachIdIsNewOnceThroughManyGrowths) {
  SeenIds seen;
  for (int i = 0; i < 20'000; ++i) EXPECT_TRUE(seen.Insert("id-" + std::to_string(i)));
  for (int i = 0; i < 20'000; ++i) EXPECT_FALSE(seen.Insert("id-" + std::to_string(i)));
  EXPECT_EQ(seen.size(), 20'000u);
  EXPECT_TRUE(seen.Insert(""));
  EXPECT_FALSE(seen.Insert(""));
}

}  // namespace
}  // namespace baton::batch
