#include "src/engine/stop.h"

#include <gtest/gtest.h>

namespace baton::engine {
namespace {

// Token t is the letter 'a' + t; token 30 is "xyz".
class Letters : public TokenDecoder {
 public:
  std::string Push(int32_t token) override {
    return token == 30 ? "xyz" : std::string(1, static_cast<char>('a' + token));
  }
  std::string Finish() override { return "!"; }
};

StopChecker Make(std::vector<std::string> stops, uint32_t max_new = 100) {
  StopSpec spec;
  spec.end_ids = {50};
  spec.stop_tokens = {51};
  spec.stop_strings = std::move(stops);
  spec.max_new = max_new;
  return {std::move(spec), std::make_unique<Letters>()};
}

TEST(Stop, TextThatMayBeginAStopStringIsHeldBack) {
  StopChecker stop = Make({"bcd"});
  EXPECT_EQ(stop.Push(0).text, "a");
  EXPECT_EQ(stop.Push(1).text, "");
  EXPECT_EQ(stop.Push(2).text, "");
  EXPECT_EQ(stop.Push(1).text, "bc");  // "bcb": the last b may begin it again
  EXPECT_EQ(stop.Push(2).text, "");
  const auto outcome = stop.Push(3);
  EXPECT_EQ(outcome.finish, wire::FinishReason::kStop);
  EXPECT_EQ(outcome.stop_text, "bcd");
  EXPECT_EQ(outcome.text, "");
}

TEST(Stop, TextBeforeAStopStringInsideOneTokenIsKept) {
  StopChecker stop = Make({"y"});
  const auto outcome = stop.Push(30);
  EXPECT_EQ(outcome.finish, wire::FinishReason::kStop);
  EXPECT_EQ(outcome.text, "x");
}

TEST(Stop, OfSeveralStopStringsTheEarliestWins) {
  StopChecker stop = Make({"z", "xy", "y"});
  const auto outcome = stop.Push(30);
  EXPECT_EQ(outcome.stop_text, "xy");
  EXPECT_EQ(outcome.text, "");
}

TEST(Stop, EndIdsAndStopTokensGiveNoTextAndLetGoOfWhatWasHeld) {
  for (const int32_t token : {50, 51}) {
    StopChecker stop = Make({"ab"});
    EXPECT_EQ(stop.Push(0).text, "");
    const auto outcome = stop.Push(token);
    EXPECT_EQ(outcome.finish, token == 50 ? wire::FinishReason::kEnd : wire::FinishReason::kStop);
    EXPECT_EQ(outcome.text, "a!");
    EXPECT_EQ(outcome.stop_text, "");
  }
}

TEST(Stop, TheLengthEndsItAndAStopStringOnTheLastTokenWins) {
  StopChecker length = Make({"ab"}, 1);
  auto outcome = length.Push(0);
  EXPECT_EQ(outcome.finish, wire::FinishReason::kLength);
  EXPECT_EQ(outcome.text, "a!");
  StopChecker stop = Make({"ab"}, 2);
  stop.Push(0);
  outcome = stop.Push(1);
  EXPECT_EQ(outcome.finish, wire::FinishReason::kStop);
}

TEST(Stop, FlushGivesWhatWasHeld) {
  StopChecker stop = Make({"abc"});
  stop.Push(0);
  stop.Push(1);
  EXPECT_EQ(stop.Flush(), "ab!");
}

TEST(Stop, WithoutADecoderThereIsNoText) {
  StopChecker stop({.end_ids = {5}, .max_new = 2}, nullptr);
  EXPECT_EQ(stop.Push(1).finish, wire::FinishReason::kNone);
  const auto outcome = stop.Push(1);
  EXPECT_EQ(outcome.finish, wire::FinishReason::kLength);
  EXPECT_EQ(outcome.text, "");
}

}  // namespace
}  // namespace baton::engine
