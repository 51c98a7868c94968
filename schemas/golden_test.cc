// Bytes that a released version wrote still mean the same.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "src/wire/codec.h"
#include "src/wire/examples.h"

namespace baton::wire {
namespace {

std::string Golden(const std::string& kind) {
  std::ifstream file("schemas/golden/v1/" + kind + ".bin", std::ios::binary);
  EXPECT_TRUE(file) << kind;
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

// When a later version adds a field to the examples, reset it in `expected` here: v1 knew it not.
template <typename T>
void ExpectGolden(const std::string& kind, const T& expected,
                  Result<T> (*decode)(std::string_view)) {
  const Result<T> decoded = decode(Golden(kind));
  ASSERT_TRUE(decoded.ok()) << kind << ": " << decoded.status().ToString();
  EXPECT_TRUE(*decoded == expected) << kind;
}

template <typename T>
Result<T> DecodeAsLedger(std::string_view bytes) {
  ASSIGN_OR_RETURN(LedgerRecord record, DecodeLedger(bytes));
  if (!std::holds_alternative<T>(record)) return InternalError("another kind of ledger record");
  return std::get<T>(std::move(record));
}

TEST(GoldenTest, EveryKindOfVersion1IsReadAsItWasMeant) {
  ExpectGolden("request", examples::FullRequest(), &DecodeRequest);
  ExpectGolden("assignment", examples::FullAssignment(), &DecodeAssignment);
  ExpectGolden("grant", examples::FullGrant(), &DecodeGrant);
  ExpectGolden("event", examples::FullEvent(), &DecodeEvent);
  ExpectGolden("registration", examples::FullRegistration(), &DecodeRegistration);
  ExpectGolden("heartbeat", examples::FullHeartbeat(), &DecodeHeartbeat);
  ExpectGolden("result_record", examples::FullResult(), &DecodeResult);
  ExpectGolden("token_record", examples::FullToken(), &DecodeToken);
  ExpectGolden("control", examples::FullControl(), &DecodeControl);
  ExpectGolden("ledger_request", examples::FullLedgerRequest(), &DecodeAsLedger<LedgerRequest>);
  ExpectGolden("ledger_position", examples::FullLedgerPosition(), &DecodeAsLedger<LedgerPosition>);
  ExpectGolden("ledger_claim", examples::FullLedgerClaim(), &DecodeAsLedger<LedgerClaim>);
  ExpectGolden("ledger_instance", examples::FullLedgerInstance(), &DecodeAsLedger<LedgerInstance>);
  ExpectGolden("dead_letter", examples::FullDeadLetter(), &DecodeDeadLetter);
}

// Ledgers hold content hashes: an upgrade that changed them would call every repeat a conflict.
TEST(GoldenTest, ContentHashOfAReleasedRequestStays) {
  const Result<Request> request = DecodeRequest(Golden("request"));
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(ContentHash(*request), 3828117712794067601u);
}

}  // namespace
}  // namespace baton::wire
