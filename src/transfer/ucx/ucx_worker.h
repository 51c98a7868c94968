// One UCX worker: active messages to and from peers by their worker address, polled, never
// blocking. Endpoints run with UCP_ERR_HANDLING_MODE_PEER: a dead peer is reported and an endpoint
// may be closed by force, at the price of UCX's shared memory transports, which that mode excludes
// (between processes of one host there is mapped memory instead). A peer that is stopped is never
// reported, so each request has a deadline; one held past it costs its endpoint.
//
// A frame is: length of the sender's address (2 bytes), that address, the protocol message. It
// travels as the body of a control message and as the header of a data message, whose body is the
// payload. Addresses in frames come from peers and go into UCX unchecked, so the network must be
// trusted as far as UCX demands. One owner thread.
#pragma once

#include <ucp/api/ucp.h>

#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "src/base/clock.h"
#include "src/base/result.h"
#include "src/transfer/link.h"

namespace baton::transfer {

// The number of the active message says which side it is for.
enum class UcxSide : unsigned { kOwner = 1, kReceiver = 2 };

class UcxWorker {
 public:
  // Receives what is for `side`, sends to the other one. The clock outlives the worker.
  static Result<std::unique_ptr<UcxWorker>> Create(UcxSide side, const Clock* clock);
  ~UcxWorker();
  UcxWorker(const UcxWorker&) = delete;
  UcxWorker& operator=(const UcxWorker&) = delete;

  const std::string& address() const { return address_; }
  // The number of the peer with that address, a new one if it has none.
  PeerId PeerAt(const std::string& address);
  void SendControl(PeerId peer, const Message& message);
  // False when too much is on its way; `payload` is taken otherwise.
  bool SendData(PeerId peer, const Message& message, std::vector<std::byte>* payload);
  // Progress, bounded by kPollBytesMax of payload; appends what came in and who was lost.
  void Poll(std::vector<LinkEvent>* events);
  void Drop(PeerId peer);

 private:
  struct Peer {
    std::string address;
    ucp_ep_h endpoint = nullptr;
  };
  // A send or a receive that UCX works on; keeps the memory alive.
  struct Operation {
    UcxWorker* worker = nullptr;
    PeerId peer = 0;
    std::string frame;
    std::vector<std::byte> payload;
    LinkEvent event;  // of a receive
    bool receives = false;
    MonoTime deadline;
    std::list<Operation>::iterator self;
  };
  using Operations = std::list<Operation>;

  UcxWorker(UcxSide side, const Clock* clock) : side_(side), clock_(clock) {}
  Status Init();
  Status SetHandler();
  ucp_ep_h EndpointOf(PeerId peer);
  Operation* Begin(PeerId peer);
  void Post(Operation* operation, const void* header, size_t header_bytes, const void* body,
            size_t body_bytes);
  void Finish(Operation* operation, ucs_status_t status);
  void Lose(PeerId peer, const Status& why);
  void CloseEndpoint(ucp_ep_h endpoint);
  void CloseFailed();
  void CheckDeadlines();
  std::string Frame(const Message& message) const;
  ucs_status_t OnFrame(const void* header, size_t header_bytes, void* body, size_t body_bytes,
                       const ucp_am_recv_param_t* param);
  bool ParseFrame(std::string_view frame, LinkEvent* event);
  ucs_status_t ReceiveLater(LinkEvent event, void* descriptor, size_t bytes);

  static ucs_status_t AmCallback(void* self, const void* header, size_t header_bytes, void* body,
                                 size_t body_bytes, const ucp_am_recv_param_t* param);
  static void SendCallback(void* request, ucs_status_t status, void* operation);
  static void ReceiveCallback(void* request, ucs_status_t status, size_t bytes, void* operation);
  static void ErrorCallback(void* self, ucp_ep_h endpoint, ucs_status_t status);

  const UcxSide side_;
  const Clock* clock_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  std::string address_;
  std::map<PeerId, Peer> peers_;
  std::map<std::string, PeerId> by_address_;
  std::map<ucp_ep_h, PeerId> by_endpoint_;
  PeerId next_peer_ = 1;
  Operations operations_;  // oldest first
  uint64_t sending_bytes_ = 0;
  std::vector<LinkEvent> inbox_;
  uint64_t inbox_bytes_ = 0;
  std::vector<std::pair<ucp_ep_h, ucs_status_t>> failed_;
  std::vector<ucs_status_ptr_t> closing_;
};

}  // namespace baton::transfer
