// The hand-off protocol: its messages, their bytes, and the limits of both sides.
//
//   receiver rank                          owner rank
//   ask  (who, layout, lease, epoch)  -->
//                                     <--  wait | refuse(code, reason) | grant(timeout)
//   fetch(bytes received so far) ...  -->  renews the transfer deadline when the number grew
//   done                              -->
//                                     <--  valid | stale(reason)
//   abort(reason)                     -->  at any time instead
//
// An owner whose lease ends early sends stale unasked, so that nobody copies on in vain.
//
// Over transports that push (UCX) the first fetch starts the owner's sending, and `data` messages
// precede the receiver's done. Over the others the receiver copies between grant and done. Bytes
// count only after `valid`: it says that the lease was still held when `done` arrived, hence while
// each byte was copied. Everything may be lost, repeated, late or out of order; ask, fetch and done
// are repeated until they are answered or a deadline ends the matter.
//
// State machines: owner.h, receiver.h. Encoding: byte 0 'K', byte 1 version, byte 2 kind, then the
// kind's fields, little-endian; texts and lists carry their length first. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "src/base/clock.h"
#include "src/base/result.h"
#include "src/wire/messages.h"

namespace baton::transfer {

inline constexpr uint8_t kProtocolVersion = 1;
inline constexpr size_t kProtocolBytesMax = 8192;
inline constexpr size_t kNameBytesMax = 256;         // instance
inline constexpr size_t kReceiverBytesMax = 512;     // receiver identity
inline constexpr size_t kLayoutTextBytesMax = 1024;  // each text of a layout
inline constexpr size_t kReasonBytesMax = 512;       // longer reasons are cut when encoded
inline constexpr uint32_t kHandoffBlocksMax = 1u << 20;

enum class Kind : uint8_t {
  kAsk = 1,
  kGrant = 2,
  kWait = 3,
  kRefuse = 4,
  kFetch = 5,
  kDone = 6,
  kAbort = 7,
  kValid = 8,
  kStale = 9,
  kData = 10,
  kHello = 11,  // mapped memory only: what the passed descriptor is
};

enum class RefuseCode : uint8_t {
  kTaken = 1,       // bound to another receiver, or to another fetch of this one
  kEnded = 2,       // done, aborted or withdrawn before
  kExpired = 3,     // a deadline ended it
  kStaleEpoch = 4,  // another life of the owner, or another attempt
  kMismatch = 5,    // layouts, block counts or ranks cannot meet
};

// One struct for all kinds; the fields that a kind carries are named beside them.
struct Message {
  Kind kind = Kind::kAsk;
  // All kinds but hello:
  uint64_t lease = 0;
  uint64_t fetch = 0;  // receiver's number; tells one use of a descriptor from another
  // All kinds:
  uint64_t owner_epoch = 0;
  uint32_t owner_rank = 0;
  uint32_t receiver_rank = 0;
  std::string instance;                  // ask, abort, hello: the owner's
  uint32_t attempt = 0;                  // ask, abort
  std::string receiver;                  // ask, abort: binds the lease
  wire::Layout layout;                   // ask: the receiver's
  uint32_t blocks = 0;                   // ask: of the descriptor
  uint32_t skip_blocks = 0;              // ask
  RefuseCode code = RefuseCode::kEnded;  // refuse
  std::string reason;                    // refuse, abort, stale
  // fetch: received so far; done: total; data: offset in the leg's stream; hello: pool size
  uint64_t bytes = 0;
  uint64_t timeout_ns = 0;  // grant: of the transfer, without progress
  uint32_t crc = 0;         // data: CRC32C of the payload
  friend bool operator==(const Message&, const Message&) = default;
};

// CHECKs the limits above, which both sides enforce on their input.
std::string EncodeMessage(const Message& message);
// kInvalidArgument for anything that EncodeMessage cannot have written.
Result<Message> DecodeMessage(std::string_view bytes);

std::string_view RefuseCodeName(RefuseCode code);

// A connection as a link numbers it; never reused.
using PeerId = uint64_t;

struct Outgoing {
  PeerId peer = 0;
  Message message;
};

struct OwnerLimits {
  size_t leases_max = 4096;
  size_t remembered_max = 4096;  // ended leases that are answered with their reason
};

struct ReceiverLimits {
  size_t fetches_max = 1024;
  size_t remembered_max = 4096;                // descriptors that are refused a second time
  Nanos retry = std::chrono::milliseconds(5);  // of ask; doubles to retry_max
  Nanos retry_max = std::chrono::milliseconds(100);
  Nanos ask_timeout = std::chrono::seconds(20);       // for a grant
  Nanos progress_timeout = std::chrono::seconds(10);  // without a byte; for valid too
};

}  // namespace baton::transfer
