#include "src/transfer/mapped/packet_socket.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "src/transfer/link.h"

namespace baton::transfer {
namespace {

constexpr int kBacklog = 512;
constexpr int kFlags = SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC;

Status Gone(const std::string& what, int error) {
  return UnavailableError(what + ": " + std::strerror(error));
}

bool WouldBlock(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == ENOBUFS; }

Result<sockaddr_un> Address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) {
    return InvalidArgumentError("socket path of " + std::to_string(path.size()) +
                                " characters, at most " +
                                std::to_string(sizeof(address.sun_path) - 1) + ": " + path);
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

}  // namespace

void Fd::Reset() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

Status PacketSocket::Send(std::string bytes) {
  if (queue_.size() >= kQueuedMessagesMax) {
    return ResourceExhaustedError(std::to_string(queue_.size()) +
                                  " messages wait for a peer that does not read");
  }
  queue_.push_back(std::move(bytes));
  return Flush();
}

Status PacketSocket::SendWithFd(const std::string& bytes, int fd) {
  iovec part{const_cast<char*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &fd, sizeof(int));
  if (sendmsg(fd_.get(), &message, MSG_NOSIGNAL) < 0) return Gone("sendmsg", errno);
  return OkStatus();
}

Status PacketSocket::Flush() {
  while (!queue_.empty()) {
    const std::string& bytes = queue_.front();
    if (send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) {
      if (errno == EINTR) continue;
      return WouldBlock(errno) ? OkStatus() : Gone("send", errno);
    }
    queue_.pop_front();
  }
  return OkStatus();
}

Result<std::optional<Packet>> PacketSocket::Receive() {
  std::array<char, kProtocolBytesMax> buffer;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  iovec part{buffer.data(), buffer.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t got = 0;
  do {
    got = recvmsg(fd_.get(), &message, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got < 0) {
    if (WouldBlock(errno)) return std::optional<Packet>();
    return Gone("recvmsg", errno);
  }
  Packet packet;
  for (cmsghdr* h = CMSG_FIRSTHDR(&message); h != nullptr; h = CMSG_NXTHDR(&message, h)) {
    if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS) continue;
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(h), sizeof(fd));
    packet.fd = Fd(fd);
  }
  if (got == 0) return UnavailableError("the peer hung up");
  if ((message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
    return InvalidArgumentError("a packet longer than " + std::to_string(buffer.size()) +
                                " bytes or with more than one descriptor");
  }
  packet.bytes.assign(buffer.data(), static_cast<size_t>(got));
  return std::optional<Packet>(std::move(packet));
}

Result<Fd> ListenAt(const std::string& path) {
  ASSIGN_OR_RETURN(const sockaddr_un address, Address(path));
  Fd fd(socket(AF_UNIX, kFlags, 0));
  if (!fd.ok() || bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) ||
      listen(fd.get(), kBacklog)) {
    return Gone("cannot listen at " + path, errno);
  }
  return fd;
}

Result<Fd> ConnectTo(const std::string& path) {
  ASSIGN_OR_RETURN(const sockaddr_un address, Address(path));
  Fd fd(socket(AF_UNIX, kFlags, 0));
  if (!fd.ok()) return Gone("socket", errno);
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    if (WouldBlock(errno)) return ResourceExhaustedError("backlog of " + path + " is full");
    return Gone("cannot reach " + path, errno);
  }
  return fd;
}

Fd Accept(int listener) {
  return Fd(accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
}

}  // namespace baton::transfer
