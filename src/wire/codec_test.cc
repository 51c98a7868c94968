#include "src/wire/codec.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "src/wire/examples.h"

namespace baton::wire {
namespace {

template <typename T>
void ExpectRoundTrip(const T& value, Result<T> (*decode)(std::string_view)) {
  const std::string bytes = Encode(value);
  const Result<T> back = decode(bytes);
  ASSERT_TRUE(back.ok()) << back.status().ToString();
  EXPECT_TRUE(*back == value);
  EXPECT_EQ(Encode(*back), bytes) << "one value has one encoding";
}

template <typename T>
Result<T> DecodeAsLedger(std::string_view bytes) {
  ASSIGN_OR_RETURN(LedgerRecord record, DecodeLedger(bytes));
  if (!std::holds_alternative<T>(record)) return InternalError("another kind of ledger record");
  return std::get<T>(std::move(record));
}

TEST(CodecTest, EveryFieldOfEveryMessageSurvivesTheWire) {
  ExpectRoundTrip(examples::FullRequest(), &DecodeRequest);
  ExpectRoundTrip(examples::FullAssignment(), &DecodeAssignment);
  ExpectRoundTrip(examples::FullGrant(), &DecodeGrant);
  ExpectRoundTrip(examples::FullEvent(), &DecodeEvent);
  ExpectRoundTrip(examples::FullRegistration(), &DecodeRegistration);
  ExpectRoundTrip(examples::FullHeartbeat(), &DecodeHeartbeat);
  ExpectRoundTrip(examples::FullResult(), &DecodeResult);
  ExpectRoundTrip(examples::FullToken(), &DecodeToken);
  ExpectRoundTrip(examples::FullControl(), &DecodeControl);
  ExpectRoundTrip(examples::FullLedgerRequest(), &DecodeAsLedger<LedgerRequest>);
  ExpectRoundTrip(examples::FullLedgerPosition(), &DecodeAsLedger<LedgerPosition>);
  ExpectRoundTrip(examples::FullLedgerClaim(), &DecodeAsLedger<LedgerClaim>);
  ExpectRoundTrip(examples::FullLedgerInstance(), &DecodeAsLedger<LedgerInstance>);
  ExpectRoundTrip(examples::FullDeadLetter(), &DecodeDeadLetter);
}

TEST(CodecTest, DefaultsOfEveryMessageSurviveTheWire) {
  ExpectRoundTrip(Request{}, &DecodeRequest);
  ExpectRoundTrip(Assignment{.request = Request{}}, &DecodeAssignment);
  ExpectRoundTrip(Assignment{.kind = AssignmentKind::kCancel}, &DecodeAssignment);
  ExpectRoundTrip(Grant{}, &DecodeGrant);
  ExpectRoundTrip(Event{}, &DecodeEvent);
  ExpectRoundTrip(Registration{}, &DecodeRegistration);
  ExpectRoundTrip(Heartbeat{}, &DecodeHeartbeat);
  ExpectRoundTrip(ResultRecord{}, &DecodeResult);
  ExpectRoundTrip(TokenRecord{}, &DecodeToken);
  ExpectRoundTrip(Control{}, &DecodeControl);
  ExpectRoundTrip(LedgerRequest{}, &DecodeAsLedger<LedgerRequest>);
  ExpectRoundTrip(LedgerPosition{}, &DecodeAsLedger<LedgerPosition>);
  ExpectRoundTrip(LedgerClaim{}, &DecodeAsLedger<LedgerClaim>);
  ExpectRoundTrip(LedgerInstance{}, &DecodeAsLedger<LedgerInstance>);
  ExpectRoundTrip(DeadLetter{}, &DecodeDeadLetter);
}

TEST(CodecTest, OptionalZeroIsNotAbsent) {
  Request request;
  request.sampling.seed = 0;
  request.end_id = 0;
  request.logprobs = 0;
  const Result<Request> back = DecodeRequest(Encode(request));
  ASSERT_TRUE(back.ok());
  EXPECT_TRUE(back->sampling.seed.has_value());
  EXPECT_TRUE(back->end_id.has_value());
  EXPECT_TRUE(back->logprobs.has_value());
}

// Bounding what shared references unfold to must not hit an honest message: here the alternatives
// are nearly all of it.
TEST(CodecTest, AnAnswerThatIsMostlyLogprobsSurvivesTheWire) {
  ResultRecord result;
  result.output.logprobs.resize(
      500, {.chosen = {1, -1, "a"}, .top = std::vector<TokenLogprob>(20, {2, -2, "b"})});
  ExpectRoundTrip(result, &DecodeResult);
  for (PositionLogprobs& position : result.output.logprobs) {
    position.chosen.bytes.clear();
    for (TokenLogprob& token : position.top) token.bytes.clear();
  }
  ExpectRoundTrip(result, &DecodeResult);
}

TEST(CodecTest, ContentHashLooksAtContentOnly) {
  const Request request = examples::FullRequest();
  Request traced = request;
  traced.correlation_id = "another";
  traced.traceparent.clear();
  EXPECT_EQ(ContentHash(traced), ContentHash(request));
  Request hotter = request;
  hotter.sampling.temperature = 0.5f;
  EXPECT_NE(ContentHash(hotter), ContentHash(request));
}

}  // namespace
}  // namespace baton::wire
