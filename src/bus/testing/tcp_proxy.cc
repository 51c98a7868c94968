#include "src/bus/testing/tcp_proxy.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string_view>

namespace baton::bus {
namespace {

sockaddr_in Loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

bool SendAll(int fd, const char* data, size_t size) {
  while (size > 0) {
    const ssize_t sent = send(fd, data, size, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    data += sent;
    size -= static_cast<size_t>(sent);
  }
  return true;
}

}  // namespace

Result<std::unique_ptr<TcpProxy>> TcpProxy::Start() {
  std::unique_ptr<TcpProxy> proxy(new TcpProxy());
  proxy->listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof address;
  if (proxy->listener_ < 0 ||
      bind(proxy->listener_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      listen(proxy->listener_, 16) != 0 ||
      getsockname(proxy->listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0 ||
      pipe2(proxy->wake_, O_CLOEXEC) != 0) {
    return UnavailableError("the proxy cannot listen on 127.0.0.1");
  }
  proxy->port_ = ntohs(address.sin_port);
  proxy->thread_ = std::thread([raw = proxy.get()] { raw->Run(); });
  return proxy;
}

TcpProxy::~TcpProxy() {
  if (wake_[1] >= 0) close(wake_[1]);  // ends the thread
  if (thread_.joinable()) thread_.join();
  for (const Pair& pair : pairs_) {
    close(pair.client);
    close(pair.target);
  }
  if (wake_[0] >= 0) close(wake_[0]);
  if (listener_ >= 0) close(listener_);
}

void TcpProxy::LoseAnswerTo(const std::string& marker) {
  std::lock_guard lock(mutex_);
  marker_ = marker;
}

void TcpProxy::Run() {
  for (;;) {
    std::vector<pollfd> waits = {{wake_[0], POLLIN, 0}, {listener_, POLLIN, 0}};
    for (const Pair& pair : pairs_) {
      waits.push_back({pair.client, POLLIN, 0});
      waits.push_back({pair.target, POLLIN, 0});
    }
    if (poll(waits.data(), waits.size(), -1) < 0) continue;
    if (waits[0].revents != 0) return;
    for (size_t i = pairs_.size(); i-- > 0;) {
      bool keep = true;
      if (waits[2 + 2 * i].revents != 0) keep = PassToTarget(pairs_[i]);
      if (keep && waits[3 + 2 * i].revents != 0) keep = PassToClient(pairs_[i]);
      if (keep) continue;
      close(pairs_[i].client);
      close(pairs_[i].target);
      pairs_.erase(pairs_.begin() + static_cast<ptrdiff_t>(i));
    }
    if (waits[1].revents != 0) Accept();
  }
}

void TcpProxy::Accept() {
  Pair pair;
  pair.client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  if (pair.client < 0) return;
  pair.target = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = Loopback(target_);
  if (target_ != 0 &&
      connect(pair.target, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) {
    pairs_.push_back(pair);
    return;
  }
  close(pair.client);
  close(pair.target);
}

bool TcpProxy::PassToTarget(Pair& pair) {
  std::array<char, 65536> buffer;
  const ssize_t got = recv(pair.client, buffer.data(), buffer.size(), 0);
  if (got <= 0) return false;
  {
    std::lock_guard lock(mutex_);
    const std::string_view bytes(buffer.data(), static_cast<size_t>(got));
    if (!marker_.empty() && bytes.find(marker_) != bytes.npos) {
      pair.losing = true;
      marker_.clear();
    }
  }
  return SendAll(pair.target, buffer.data(), static_cast<size_t>(got));
}

bool TcpProxy::PassToClient(Pair& pair) {
  std::array<char, 65536> buffer;
  const ssize_t got = recv(pair.target, buffer.data(), buffer.size(), 0);
  if (got <= 0) return false;
  if (pair.losing) {
    ++lost_;
    return false;
  }
  return SendAll(pair.client, buffer.data(), static_cast<size_t>(got));
}

}  // namespace baton::bus
