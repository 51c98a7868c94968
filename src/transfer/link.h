// What a transport has to offer: connections that carry protocol messages, and one way to move
// bytes. Nothing blocks. One owner thread (the rank's) makes every call to a link; owner and
// receiver side of a rank are separate objects, made and polled by the same thread.
//
// Bytes move in one of two ways. A link that pulls lets the receiver copy out of the owner's pool
// (mapped memory, simulation). A link that pushes carries them as `data` messages with a payload,
// sent by the owner after the first `fetch` (UCX).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "src/base/result.h"
#include "src/transfer/protocol.h"

namespace baton::transfer {

// Bytes that one Poll of a Source or Sink moves at most: about half a millisecond of the rank's
// time.
inline constexpr uint64_t kPollBytesMax = 4u << 20;
// A push is cut into pieces of this size; the last one may be shorter.
inline constexpr uint64_t kPushBytes = 1u << 20;
// Sent by the owner and not yet reported as received, for one leg.
inline constexpr uint64_t kPushWindowBytes = 4u << 20;
inline constexpr size_t kConnectionsMax = 1024;
// Queued for one peer that does not read; more and the peer counts as lost.
inline constexpr size_t kQueuedMessagesMax = 4096;

struct LinkEvent {
  enum class What : uint8_t { kMessage, kLost };
  What what = What::kMessage;
  PeerId peer = 0;
  Message message;                 // kMessage
  std::vector<std::byte> payload;  // of a data message
  Status why;                      // kLost
};

class OwnerLink {
 public:
  virtual ~OwnerLink() = default;
  virtual std::string endpoint() const = 0;
  // Appends what came in, a bounded number of events.
  virtual void Poll(std::vector<LinkEvent>* events) = 0;
  // Never blocks. A peer that cannot be reached is reported by Poll.
  virtual void Send(PeerId peer, const Message& message) = 0;
  // Cuts the connection; no event follows on this side.
  virtual void Drop(PeerId peer) = 0;
  virtual bool pushes() const { return false; }
  // False: no room now, and nothing was taken. Only where pushes().
  virtual bool Push(PeerId, const Message&, std::vector<std::byte>*) { return false; }
};

class ReceiverLink {
 public:
  virtual ~ReceiverLink() = default;
  // The same number for the same endpoint while that connection lives. A peer that turns out to be
  // away is reported by Poll. kInvalidArgument: not an endpoint of this transport.
  virtual Result<PeerId> Connect(const std::string& endpoint) = 0;
  virtual void Poll(std::vector<LinkEvent>* events) = 0;
  virtual void Send(PeerId peer, const Message& message) = 0;
  virtual void Drop(PeerId peer) = 0;
  virtual bool pulls() const { return false; }
  // Copies out of the peer's pool. kInvalidArgument: outside of it; kUnavailable: the peer is gone.
  // Only where pulls().
  virtual Status Pull(PeerId, uint64_t, std::byte*, size_t) {
    return FailedPreconditionError("this transport pushes");
  }
};

}  // namespace baton::transfer
