// A Unix-domain socket of whole packets (SOCK_SEQPACKET), never blocking, that can pass one file
// descriptor with a packet. One owner thread.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "src/base/result.h"

namespace baton::transfer {

// Closes on destruction.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() { Reset(); }
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) {
      Reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  int get() const { return fd_; }
  bool ok() const { return fd_ >= 0; }
  void Reset();

 private:
  int fd_ = -1;
};

struct Packet {
  std::string bytes;
  Fd fd;  // passed along, or empty
};

class PacketSocket {
 public:
  explicit PacketSocket(Fd fd) : fd_(std::move(fd)) {}
  int fd() const { return fd_.get(); }
  // Sends now or queues. kResourceExhausted when the peer reads too slowly, kUnavailable when it is
  // gone.
  Status Send(std::string bytes);
  // With a descriptor, at once; for the first packet of a connection, whose buffer is empty.
  Status SendWithFd(const std::string& bytes, int fd);
  // Sends what is queued, as far as it goes.
  Status Flush();
  bool has_queued() const { return !queue_.empty(); }
  // Empty: nothing there now. kUnavailable: the peer hung up. kInvalidArgument: longer than a
  // message of the protocol.
  Result<std::optional<Packet>> Receive();

 private:
  Fd fd_;
  std::deque<std::string> queue_;
};

// kInvalidArgument when the path is too long for a socket address.
Result<Fd> ListenAt(const std::string& path);
// kResourceExhausted: the listener's backlog is full, try again.
Result<Fd> ConnectTo(const std::string& path);
// Empty when nobody waits.
Fd Accept(int listener);

}  // namespace baton::transfer
