// Hostile bytes: each kind of message at each stage of decoding.
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "schemas/assignment_generated.h"
#include "schemas/control_generated.h"
#include "schemas/dead_letter_generated.h"
#include "schemas/event_generated.h"
#include "schemas/ledger_instance_generated.h"
#include "schemas/ledger_request_generated.h"
#include "schemas/registration_generated.h"
#include "schemas/request_generated.h"
#include "schemas/result_record_generated.h"
#include "schemas/token_record_generated.h"
#include "src/base/rng.h"
#include "src/wire/codec.h"
#include "src/wire/examples.h"

namespace baton::wire {
namespace {

struct Kind {
  std::string name;
  std::string bytes;
  std::function<Status(std::string_view)> decode;
};

template <typename T>
Kind MakeKind(const char* name, const std::string& bytes, Result<T> (*decode)(std::string_view)) {
  return {name, bytes, [decode](std::string_view b) { return decode(b).status(); }};
}

std::vector<Kind> AllKinds() {
  namespace x = examples;
  return {MakeKind("request", Encode(x::FullRequest()), &DecodeRequest),
          MakeKind("assignment", Encode(x::FullAssignment()), &DecodeAssignment),
          MakeKind("grant", Encode(x::FullGrant()), &DecodeGrant),
          MakeKind("event", Encode(x::FullEvent()), &DecodeEvent),
          MakeKind("registration", Encode(x::FullRegistration()), &DecodeRegistration),
          MakeKind("heartbeat", Encode(x::FullHeartbeat()), &DecodeHeartbeat),
          MakeKind("result", Encode(x::FullResult()), &DecodeResult),
          MakeKind("token", Encode(x::FullToken()), &DecodeToken),
          MakeKind("control", Encode(x::FullControl()), &DecodeControl),
          MakeKind("ledger request", Encode(x::FullLedgerRequest()), &DecodeLedger),
          MakeKind("ledger position", Encode(x::FullLedgerPosition()), &DecodeLedger),
          MakeKind("ledger claim", Encode(x::FullLedgerClaim()), &DecodeLedger),
          MakeKind("ledger instance", Encode(x::FullLedgerInstance()), &DecodeLedger),
          MakeKind("dead letter", Encode(x::FullDeadLetter()), &DecodeDeadLetter)};
}

void ExpectStage(const Status& status, const std::string& stage, const std::string& what) {
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << what;
  EXPECT_TRUE(status.message().starts_with(stage + ": ")) << what << ": " << status.message();
}

void ExpectMeaning(const Status& status, const std::string& field) {
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << field;
  EXPECT_TRUE(status.message().starts_with("meaning: " + field)) << status.message();
}

template <typename Root>
std::string Finish(flatbuffers::FlatBufferBuilder& b, flatbuffers::Offset<Root> root,
                   const char* identifier) {
  b.Finish(root, identifier);
  return std::string(reinterpret_cast<const char*>(b.GetBufferPointer()), b.GetSize());
}

TEST(RefusalTest, SizeComesFirst) {
  for (const Kind& kind : AllKinds()) {
    ExpectStage(kind.decode({}), "size", kind.name);
    ExpectStage(kind.decode(kind.bytes.substr(0, 7)), "size", kind.name);
    ExpectStage(kind.decode(std::string(kMessageBytesMax + 1, 'x')), "size", kind.name);
  }
}

TEST(RefusalTest, NoKindPassesForAnother) {
  const std::vector<Kind> kinds = AllKinds();
  for (const Kind& kind : kinds) {
    for (const Kind& other : kinds) {
      const bool both_ledger = kind.name.starts_with("ledger") && other.name.starts_with("ledger");
      if (kind.name == other.name || both_ledger) continue;
      ExpectStage(kind.decode(other.bytes), "identifier", kind.name + " <- " + other.name);
    }
  }
}

TEST(RefusalTest, AnUnprintableIdentifierIsShownInHex) {
  std::string bytes = Encode(Request{});
  bytes.replace(4, 4, std::string("\x00\x1b[A", 4));
  EXPECT_EQ(DecodeRequest(bytes).status().message(),
            "identifier: expected BREQ, found \\x00\\x1b[A");
}

TEST(RefusalTest, ARootThatPointsOutsideIsNoStructure) {
  for (const Kind& kind : AllKinds()) {
    std::string bytes = kind.bytes;
    bytes.replace(0, 4, "\xff\xff\xff\x7f");
    ExpectStage(kind.decode(bytes), "verifier", kind.name);
    ExpectStage(kind.decode(kind.bytes.substr(0, 12)), "verifier", kind.name);
  }
}

TEST(RefusalTest, EveryTruncationEndsInAVerdict) {
  for (const Kind& kind : AllKinds()) {
    for (size_t bytes = 8; bytes < kind.bytes.size(); ++bytes) {
      const std::string cut = kind.bytes.substr(0, bytes);
      const Status status = kind.decode(cut);
      // Three bytes of padding may be missed by nobody.
      if (bytes + 3 < kind.bytes.size()) ExpectStage(status, "verifier", kind.name);
    }
  }
}

TEST(RefusalTest, FlippedBitsEndInAVerdict) {
  constexpr int kRounds = 2000;
  Rng rng(7);
  for (const Kind& kind : AllKinds()) {
    int refused = 0;
    for (int round = 0; round < kRounds; ++round) {
      std::string bytes = kind.bytes;
      for (uint64_t flips = 1 + rng.Below(4); flips > 0; --flips) {
        bytes[rng.Below(bytes.size())] ^= static_cast<char>(1 << rng.Below(8));
      }
      refused += kind.decode(bytes).ok() ? 0 : 1;
    }
    EXPECT_GT(refused, kRounds / 20) << kind.name << ": the flips hit nothing that is checked";
  }
}

TEST(RefusalTest, BytesAtAnyAddressAreRead) {
  for (const Kind& kind : AllKinds()) {
    for (size_t shift = 0; shift < 16; ++shift) {
      const std::string shifted = std::string(shift, '\0') + kind.bytes;
      const Status status = kind.decode(std::string_view(shifted).substr(shift));
      EXPECT_TRUE(status.ok()) << kind.name << " at " << shift << ": " << status.ToString();
    }
  }
}

TEST(RefusalTest, MoreTablesThanAnyMessageNeedsAreRefused) {
  Heartbeat heartbeat;
  heartbeat.in_step.resize(5000, {"tenant", "id"});
  ExpectStage(DecodeHeartbeat(Encode(heartbeat)).status(), "verifier", "heartbeat");
}

TEST(RefusalTest, ReferencesThatShareBytesDoNotUnfold) {
  flatbuffers::FlatBufferBuilder b;
  const auto big = b.CreateString(std::string(100'000, 's'));
  const auto stops = b.CreateVector(std::vector(1000, big));
  const auto id = fb::CreateIdentity(b);
  fb::RequestBuilder request(b);
  request.add_id(id);
  request.add_stop_strings(stops);
  const auto root = request.Finish();
  ExpectMeaning(DecodeRequest(Finish(b, root, fb::RequestIdentifier())).status(),
                "parts refer to the same bytes");
}

// ------------------------------------------------------------------------------- meaning

TEST(RefusalTest, UnknownEnumValuesAreRefusedByName) {
  Request request;
  request.kind = static_cast<RequestKind>(3);
  ExpectMeaning(DecodeRequest(Encode(request)).status(), "kind: 3");
  request = {};
  request.priority = static_cast<Priority>(200);
  ExpectMeaning(DecodeRequest(Encode(request)).status(), "priority: 200");
  Assignment assignment{.kind = static_cast<AssignmentKind>(9)};
  ExpectMeaning(DecodeAssignment(Encode(assignment)).status(), "kind: 9");
  Event event;
  event.phase = static_cast<Phase>(3);
  ExpectMeaning(DecodeEvent(Encode(event)).status(), "phase: 3");
  event = {};
  event.output.finish = static_cast<FinishReason>(7);
  ExpectMeaning(DecodeEvent(Encode(event)).status(), "output.finish: 7");
  Registration registration{.role = static_cast<Role>(3)};
  ExpectMeaning(DecodeRegistration(Encode(registration)).status(), "role: 3");
  Grant grant{.refusal = Status(static_cast<StatusCode>(12), "")};
  ExpectMeaning(DecodeGrant(Encode(grant)).status(), "refusal_code: 12");
  ResultRecord result{.outcome = static_cast<Outcome>(5)};
  ExpectMeaning(DecodeResult(Encode(result)).status(), "outcome: 5");
  Control control{.scope = static_cast<ControlScope>(3)};
  ExpectMeaning(DecodeControl(Encode(control)).status(), "scope: 3");
  LedgerRequest ledger{.state = static_cast<RequestState>(7)};
  ExpectMeaning(DecodeLedger(Encode(ledger)).status(), "state: 7");
}

TEST(RefusalTest, AMessageWithoutItsIdentityIsRefused) {
  flatbuffers::FlatBufferBuilder b;
  ExpectMeaning(DecodeRequest(Finish(b, fb::CreateRequest(b), fb::RequestIdentifier())).status(),
                "id");
  b.Clear();
  ExpectMeaning(
      DecodeToken(Finish(b, fb::CreateTokenRecord(b), fb::TokenRecordIdentifier())).status(), "id");
  b.Clear();
  ExpectMeaning(
      DecodeResult(Finish(b, fb::CreateResultRecord(b), fb::ResultRecordIdentifier())).status(),
      "id");
  b.Clear();
  ExpectMeaning(DecodeControl(Finish(b, fb::CreateControl(b), fb::ControlIdentifier())).status(),
                "id");
  b.Clear();
  ExpectMeaning(
      DecodeAssignment(Finish(b, fb::CreateAssignment(b), fb::AssignmentIdentifier())).status(),
      "address");
  b.Clear();
  ExpectMeaning(DecodeEvent(Finish(b, fb::CreateEvent(b), fb::EventIdentifier())).status(),
                "address");
}

TEST(RefusalTest, AMessageWithoutItsContentIsRefused) {
  flatbuffers::FlatBufferBuilder b;
  ExpectMeaning(
      DecodeRegistration(Finish(b, fb::CreateRegistration(b), fb::RegistrationIdentifier()))
          .status(),
      "layout");
  b.Clear();
  ExpectMeaning(
      DecodeLedger(Finish(b, fb::CreateLedgerRequest(b), fb::LedgerRequestIdentifier())).status(),
      "request");
  b.Clear();
  ExpectMeaning(
      DecodeLedger(Finish(b, fb::CreateLedgerInstance(b), fb::LedgerInstanceIdentifier())).status(),
      "registration");
  ExpectMeaning(DecodeAssignment(Encode(Assignment{})).status(), "request");
  Assignment generate{.phase = Phase::kGeneration, .request = Request{}};
  ExpectMeaning(DecodeAssignment(Encode(generate)).status(), "handoff");
  ExpectMeaning(DecodeEvent(Encode(Event{.kind = EventKind::kContextDone})).status(), "handoff");
  ExpectMeaning(DecodeEvent(Encode(Event{.kind = EventKind::kFailed})).status(), "error");
  ExpectMeaning(DecodeResult(Encode(ResultRecord{.outcome = Outcome::kError})).status(), "error");
  ExpectMeaning(DecodeResult(Encode(ResultRecord{.kind = ResultKind::kCopy})).status(), "original");
}

TEST(RefusalTest, NumbersThatContradictEachOtherAreRefused) {
  Registration registration = examples::FullRegistration();
  registration.layout.layers = 31;
  ExpectMeaning(DecodeRegistration(Encode(registration)).status(), "layout: 3 stages");
  registration.layout.tp = 0;
  ExpectMeaning(DecodeRegistration(Encode(registration)).status(), "layout: tp 0");
  registration = examples::FullRegistration();
  registration.layout.block_tokens = 0;
  ExpectMeaning(DecodeRegistration(Encode(registration)).status(), "layout: block_tokens");
  Request request = examples::FullRequest();
  request.handoff->blocks.clear();
  ExpectMeaning(DecodeRequest(Encode(request)).status(), "handoff: 1 block hashes for 0 blocks");
  Event event = examples::FullEvent();
  event.timings.queue_ms = std::numeric_limits<double>::infinity();
  ExpectMeaning(DecodeEvent(Encode(event)).status(), "timings");
  ExpectMeaning(DecodeHeartbeat(Encode(Heartbeat{.slot_offset = -1})).status(), "slot_offset");
  ExpectMeaning(DecodeLedger(Encode(LedgerPosition{.offset = -1})).status(), "position");
  ExpectMeaning(DecodeLedger(Encode(LedgerClaim{.wall_ms = -1})).status(), "wall_ms");
}

TEST(RefusalTest, LogprobCountsMustAddUp) {
  flatbuffers::FlatBufferBuilder b;
  const auto id = fb::CreateIdentity(b);
  const auto chosen = b.CreateVectorOfStructs(std::vector<fb::TokenLogprob>{{1, -1}});
  const auto counts = b.CreateVector(std::vector<uint16_t>{2});
  const auto logprobs = fb::CreateLogprobs(b, chosen, counts);
  const auto output = fb::CreateOutput(b, 0, 0, fb::FinishReason::None, 0, logprobs);
  fb::ResultRecordBuilder result(b);
  result.add_id(id);
  result.add_output(output);
  const auto root = result.Finish();
  ExpectMeaning(DecodeResult(Finish(b, root, fb::ResultRecordIdentifier())).status(),
                "logprobs: 1 positions, 1 counts that add up to 2, 0 alternatives");
}

TEST(RefusalTest, LogprobTextsMustAddUp) {
  flatbuffers::FlatBufferBuilder b;
  const auto id = fb::CreateIdentity(b);
  const auto chosen = b.CreateVectorOfStructs(std::vector<fb::TokenLogprob>{{1, -1}});
  const auto counts = b.CreateVector(std::vector<uint16_t>{0});
  const auto text = b.CreateVector(std::vector<uint8_t>{'a', 'b'});
  const auto sizes = b.CreateVector(std::vector<uint16_t>{3});
  const auto logprobs = fb::CreateLogprobs(b, chosen, counts, 0, text, sizes);
  const auto output = fb::CreateOutput(b, 0, 0, fb::FinishReason::None, 0, logprobs);
  fb::ResultRecordBuilder result(b);
  result.add_id(id);
  result.add_output(output);
  const auto root = result.Finish();
  ExpectMeaning(DecodeResult(Finish(b, root, fb::ResultRecordIdentifier())).status(),
                "logprobs: 1 texts of 3 bytes for 1 tokens and 2 bytes");
}

TEST(RefusalTest, DeadLetterTextIsShortenedBetweenCharactersAndRefusedWhenLonger) {
  DeadLetter dead;
  dead.message = std::string(511, 'a') + "\xc3\xa9tail";
  const Result<DeadLetter> back = DecodeDeadLetter(Encode(dead));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->message, std::string(511, 'a'));
  flatbuffers::FlatBufferBuilder b;
  const auto message = b.CreateString(std::string(513, 'a'));
  const auto root = fb::CreateDeadLetter(b, 0, 0, message);
  ExpectMeaning(DecodeDeadLetter(Finish(b, root, fb::DeadLetterIdentifier())).status(), "message");
}

}  // namespace
}  // namespace baton::wire
