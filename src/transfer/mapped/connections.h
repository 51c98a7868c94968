// The open sockets of one side, by peer number: sends, receives and tells which were lost. One
// owner thread.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "src/base/result.h"
#include "src/transfer/link.h"
#include "src/transfer/mapped/packet_socket.h"

namespace baton::transfer {

class Connections {
 public:
  static Result<std::unique_ptr<Connections>> Create();

  // Takes the socket in and watches it.
  void Add(PeerId peer, PacketSocket socket);
  // A peer that cannot take it is reported lost by the next Poll.
  void Send(PeerId peer, const Message& message);
  void Drop(PeerId peer) { sockets_.erase(peer); }
  size_t size() const { return sockets_.size(); }
  // Watches a listener; Poll says when it is ready.
  Status AddListener(int fd);
  // Appends events. A passed descriptor of a hello message goes to `hellos`.
  struct Hello {
    PeerId peer = 0;
    Message message;
    Fd fd;
  };
  void Poll(std::vector<LinkEvent>* events, std::vector<Hello>* hellos, bool* listener_ready);
  void Lose(PeerId peer, const Status& why);

 private:
  explicit Connections(Fd epoll) : epoll_(std::move(epoll)) {}
  void Read(PeerId peer, std::vector<LinkEvent>* events, std::vector<Hello>* hellos);
  void Watch(PeerId peer, int fd, bool writable, int operation);

  Fd epoll_;
  std::map<PeerId, PacketSocket> sockets_;
  std::vector<LinkEvent> lost_;
};

}  // namespace baton::transfer
