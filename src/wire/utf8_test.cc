#include "src/wire/utf8.h"

#include <gtest/gtest.h>

namespace baton::wire {
namespace {

using std::string_view_literals::operator""sv;

TEST(Utf8Test, WellFormedTextPasses) {
  for (const std::string_view text :
       {""sv, "plain"sv, "\0"sv, "caf\xc3\xa9"sv, "\xe2\x82\xac"sv, "\xed\x9f\xbf"sv,
        "\xee\x80\x80"sv, "\xf0\x90\x80\x80"sv, "\xf4\x8f\xbf\xbf"sv}) {
    EXPECT_TRUE(IsUtf8(text)) << text;
  }
}

TEST(Utf8Test, MalformedTextIsSeen) {
  for (const std::string_view text :
       {"\x80"sv, "\xc3"sv, "\xc0\x80"sv, "\xc1\xbf"sv, "\xe0\x9f\xbf"sv, "\xe2\x82"sv,
        "\xed\xa0\x80"sv, "\xf0\x8f\xbf\xbf"sv, "\xf4\x90\x80\x80"sv, "\xf5\x80\x80\x80"sv,
        "\xe2\x28\xa1"sv, "\xff"sv, "ok\xc3(ok"sv}) {
    EXPECT_FALSE(IsUtf8(text)) << text;
  }
}

}  // namespace
}  // namespace baton::wire
