#include "src/transfer/mapped/connections.h"

#include <sys/epoll.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace baton::transfer {
namespace {

constexpr uint64_t kListener = 0;      // peers are numbered from 1
constexpr int kReadyMax = 64;          // sockets served by one Poll
constexpr int kPacketsPerSocket = 64;  // read from one socket in one Poll

}  // namespace

Result<std::unique_ptr<Connections>> Connections::Create() {
  Fd epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.ok()) {
    return ResourceExhaustedError(std::string("epoll_create1: ") + std::strerror(errno));
  }
  return std::unique_ptr<Connections>(new Connections(std::move(epoll)));
}

void Connections::Watch(PeerId peer, int fd, bool writable, int operation) {
  epoll_event event{};
  event.events = EPOLLIN | (writable ? EPOLLOUT : 0u);
  event.data.u64 = peer;
  if (epoll_ctl(epoll_.get(), operation, fd, &event) != 0) {
    Lose(peer, ResourceExhaustedError(std::string("epoll_ctl: ") + std::strerror(errno)));
  }
}

Status Connections::AddListener(int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kListener;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0) return OkStatus();
  return ResourceExhaustedError(std::string("epoll_ctl: ") + std::strerror(errno));
}

void Connections::Add(PeerId peer, PacketSocket socket) {
  const int fd = socket.fd();
  const bool queued = socket.has_queued();
  sockets_.emplace(peer, std::move(socket));
  Watch(peer, fd, queued, EPOLL_CTL_ADD);
}

void Connections::Send(PeerId peer, const Message& message) {
  const auto found = sockets_.find(peer);
  if (found == sockets_.end()) return;
  const bool queued = found->second.has_queued();
  if (Status s = found->second.Send(EncodeMessage(message)); !s.ok()) return Lose(peer, s);
  if (found->second.has_queued() != queued) {
    Watch(peer, found->second.fd(), !queued, EPOLL_CTL_MOD);
  }
}

void Connections::Lose(PeerId peer, const Status& why) {
  sockets_.erase(peer);
  lost_.push_back({LinkEvent::What::kLost, peer, {}, {}, why});
}

void Connections::Poll(std::vector<LinkEvent>* events, std::vector<Hello>* hellos,
                       bool* listener_ready) {
  std::array<epoll_event, kReadyMax> ready;
  const int count = epoll_wait(epoll_.get(), ready.data(), kReadyMax, 0);
  for (int i = 0; i < count; ++i) {
    const PeerId peer = ready[i].data.u64;
    if (peer == kListener) {
      *listener_ready = true;
      continue;
    }
    const auto found = sockets_.find(peer);
    if (found == sockets_.end()) continue;
    if ((ready[i].events & EPOLLOUT) != 0) {
      if (Status s = found->second.Flush(); !s.ok()) {
        Lose(peer, s);
        continue;
      }
      if (!found->second.has_queued()) Watch(peer, found->second.fd(), false, EPOLL_CTL_MOD);
    }
    if ((ready[i].events & ~EPOLLOUT) != 0) Read(peer, events, hellos);
  }
  for (LinkEvent& event : lost_) events->push_back(std::move(event));
  lost_.clear();
}

void Connections::Read(PeerId peer, std::vector<LinkEvent>* events, std::vector<Hello>* hellos) {
  PacketSocket& socket = sockets_.at(peer);
  for (int i = 0; i < kPacketsPerSocket; ++i) {
    Result<std::optional<Packet>> packet = socket.Receive();
    if (!packet.ok()) return Lose(peer, packet.status());
    if (!packet->has_value()) return;
    Result<Message> message = DecodeMessage((*packet)->bytes);
    if (!message.ok()) return Lose(peer, message.status());
    if (message->kind == Kind::kHello) {
      hellos->push_back({peer, std::move(*message), std::move((*packet)->fd)});
    } else if (message->kind != Kind::kData) {  // no bytes travel here
      events->push_back({LinkEvent::What::kMessage, peer, std::move(*message), {}, {}});
    }
  }
}

}  // namespace baton::transfer
