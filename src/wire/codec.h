// Messages <-> bytes. Inbound bytes are hostile: each Decode checks, in this order, the size limit,
// the file identifier, the FlatBuffers structure (depth and table limits, a copy when misaligned),
// and then the meaning. The error's message begins with the stage that refused: "size: ",
// "identifier: ", "verifier: ", "meaning: ", so that a dead letter can name it. Pure; thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <variant>

#include "src/base/result.h"
#include "src/wire/messages.h"

namespace baton::wire {

inline constexpr size_t kMessageBytesMax = 4u << 20;

std::string Encode(const Request&);
std::string Encode(const Assignment&);
std::string Encode(const Grant&);
std::string Encode(const Event&);
std::string Encode(const Registration&);
std::string Encode(const Heartbeat&);
std::string Encode(const ResultRecord&);
std::string Encode(const TokenRecord&);
std::string Encode(const Control&);
std::string Encode(const LedgerRequest&);
std::string Encode(const LedgerPosition&);
std::string Encode(const LedgerClaim&);
std::string Encode(const LedgerInstance&);
std::string Encode(const DeadLetter&);

Result<Request> DecodeRequest(std::string_view bytes);
// What lies on an assign partition: slot 0 has grants, the others assignments.
Result<Assignment> DecodeAssignment(std::string_view bytes);
Result<Grant> DecodeGrant(std::string_view bytes);
Result<Event> DecodeEvent(std::string_view bytes);
Result<Registration> DecodeRegistration(std::string_view bytes);
Result<Heartbeat> DecodeHeartbeat(std::string_view bytes);
Result<ResultRecord> DecodeResult(std::string_view bytes);
Result<TokenRecord> DecodeToken(std::string_view bytes);
Result<Control> DecodeControl(std::string_view bytes);
using LedgerRecord = std::variant<LedgerRequest, LedgerPosition, LedgerClaim, LedgerInstance>;
// Tells the four kinds apart by file identifier.
Result<LedgerRecord> DecodeLedger(std::string_view bytes);
Result<DeadLetter> DecodeDeadLetter(std::string_view bytes);

// Refuses what no model could serve whatever its size: n != 1, max_tokens 0, an empty prompt, a
// temperature that is NaN or negative, an empty stop string, two kinds of prompt, ... (scenario
// 18). Client faults: kInvalidArgument with the field's name.
Status ValidateRequest(const Request& request);

// XXH3 of the request's canonical encoding without correlation and trace fields.
uint64_t ContentHash(const Request& request);

}  // namespace baton::wire
