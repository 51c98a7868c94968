#include "src/transfer/ucx/ucx_worker.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "src/base/check.h"

namespace baton::transfer {
namespace {

constexpr Nanos kRequestTimeout = std::chrono::seconds(10);
// Payload on its way from one worker to all peers.
constexpr uint64_t kSendingBytesMax = 64u << 20;
constexpr size_t kAddressBytesMax = 4096;
// A data message's header: length, address, message of fixed size.
constexpr size_t kDataMessageBytesMax = 128;
// Unanswered calls of progress at the end of a worker's life, which must not block.
constexpr int kLastProgressCalls = 1000;

Status UcxError(const std::string& what, ucs_status_t status) {
  return UnavailableError(what + ": " + ucs_status_string(status));
}

}  // namespace

Result<std::unique_ptr<UcxWorker>> UcxWorker::Create(UcxSide side, const Clock* clock) {
  std::unique_ptr<UcxWorker> worker(new UcxWorker(side, clock));
  BATON_RETURN_IF_ERROR(worker->Init());
  return worker;
}

Status UcxWorker::Init() {
  ucp_config_t* config = nullptr;
  ucs_status_t status = ucp_config_read(nullptr, nullptr, &config);
  if (status != UCS_OK) return UcxError("ucp_config_read", status);
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  params.features = UCP_FEATURE_AM;
  status = ucp_init(&params, config, &context_);
  ucp_config_release(config);
  if (status != UCS_OK) return UcxError("ucp_init", status);
  ucp_worker_params_t worker_params{};
  worker_params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  worker_params.thread_mode = UCS_THREAD_MODE_SINGLE;
  status = ucp_worker_create(context_, &worker_params, &worker_);
  if (status != UCS_OK) return UcxError("ucp_worker_create", status);
  ucp_worker_attr_t attributes{};
  attributes.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS | UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER;
  status = ucp_worker_query(worker_, &attributes);
  if (status != UCS_OK) return UcxError("ucp_worker_query", status);
  address_.assign(reinterpret_cast<const char*>(attributes.address), attributes.address_length);
  ucp_worker_release_address(worker_, attributes.address);
  if (address_.size() > kAddressBytesMax ||
      attributes.max_am_header < 2 + address_.size() + kDataMessageBytesMax) {
    return FailedPreconditionError("UCX worker address of " + std::to_string(address_.size()) +
                                   " bytes does not fit into a header of " +
                                   std::to_string(attributes.max_am_header));
  }
  return SetHandler();
}

Status UcxWorker::SetHandler() {
  ucp_am_handler_param_t handler{};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                       UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  handler.id = static_cast<unsigned>(side_);
  handler.flags = UCP_AM_FLAG_WHOLE_MSG;
  handler.cb = &UcxWorker::AmCallback;
  handler.arg = this;
  const ucs_status_t status = ucp_worker_set_am_recv_handler(worker_, &handler);
  return status == UCS_OK ? OkStatus() : UcxError("ucp_worker_set_am_recv_handler", status);
}

UcxWorker::~UcxWorker() {
  if (worker_ != nullptr) {
    for (const auto& [id, peer] : peers_) {
      if (peer.endpoint != nullptr) CloseEndpoint(peer.endpoint);
    }
    for (int i = 0; i < kLastProgressCalls && !(closing_.empty() && operations_.empty()); ++i) {
      ucp_worker_progress(worker_);
      CloseFailed();
    }
    ucp_worker_destroy(worker_);
  }
  if (context_ != nullptr) ucp_cleanup(context_);
}

PeerId UcxWorker::PeerAt(const std::string& address) {
  const auto found = by_address_.find(address);
  if (found != by_address_.end()) return found->second;
  // Full: the oldest goes. If it is still in use its transfers end like those of a lost peer.
  if (peers_.size() >= kConnectionsMax) {
    Lose(peers_.begin()->first, ResourceExhaustedError("too many peers"));
  }
  const PeerId peer = next_peer_++;
  peers_[peer].address = address;
  by_address_[address] = peer;
  return peer;
}

ucp_ep_h UcxWorker::EndpointOf(PeerId id) {
  const auto found = peers_.find(id);
  if (found == peers_.end()) return nullptr;
  Peer& peer = found->second;
  if (peer.endpoint != nullptr) return peer.endpoint;
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(peer.address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = &UcxWorker::ErrorCallback;
  params.err_handler.arg = this;
  const ucs_status_t status = ucp_ep_create(worker_, &params, &peer.endpoint);
  if (status != UCS_OK) {
    peer.endpoint = nullptr;
    Lose(id, UcxError("ucp_ep_create", status));
    return nullptr;
  }
  by_endpoint_[peer.endpoint] = id;
  return peer.endpoint;
}

std::string UcxWorker::Frame(const Message& message) const {
  std::string frame;
  frame.push_back(static_cast<char>(address_.size() & 0xff));
  frame.push_back(static_cast<char>(address_.size() >> 8));
  return frame + address_ + EncodeMessage(message);
}

UcxWorker::Operation* UcxWorker::Begin(PeerId peer) {
  operations_.emplace_back();
  Operation* operation = &operations_.back();
  operation->worker = this;
  operation->peer = peer;
  operation->deadline = clock_->Now() + kRequestTimeout;
  operation->self = std::prev(operations_.end());
  return operation;
}

void UcxWorker::SendControl(PeerId peer, const Message& message) {
  if (operations_.size() >= kQueuedMessagesMax) {
    return Lose(peer, ResourceExhaustedError("too many messages wait in UCX"));
  }
  Operation* operation = Begin(peer);
  operation->frame = Frame(message);
  Post(operation, nullptr, 0, operation->frame.data(), operation->frame.size());
}

bool UcxWorker::SendData(PeerId peer, const Message& message, std::vector<std::byte>* payload) {
  if (sending_bytes_ + payload->size() > kSendingBytesMax ||
      operations_.size() >= kQueuedMessagesMax) {
    return false;
  }
  Operation* operation = Begin(peer);
  operation->frame = Frame(message);
  operation->payload = std::move(*payload);
  sending_bytes_ += operation->payload.size();
  Post(operation, operation->frame.data(), operation->frame.size(), operation->payload.data(),
       operation->payload.size());
  return true;
}

void UcxWorker::Post(Operation* operation, const void* header, size_t header_bytes,
                     const void* body, size_t body_bytes) {
  const ucp_ep_h endpoint = EndpointOf(operation->peer);
  if (endpoint == nullptr) return Finish(operation, UCS_ERR_UNREACHABLE);
  const unsigned other = side_ == UcxSide::kOwner ? static_cast<unsigned>(UcxSide::kReceiver)
                                                  : static_cast<unsigned>(UcxSide::kOwner);
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.cb.send = &UcxWorker::SendCallback;
  param.user_data = operation;
  const ucs_status_ptr_t request =
      ucp_am_send_nbx(endpoint, other, header, header_bytes, body, body_bytes, &param);
  // A pointer: the callback ends it.
  if (request == nullptr) return Finish(operation, UCS_OK);
  if (UCS_PTR_IS_ERR(request)) Finish(operation, UCS_PTR_STATUS(request));
}

void UcxWorker::Finish(Operation* operation, ucs_status_t status) {
  const PeerId peer = operation->peer;
  if (operation->receives) {
    if (status == UCS_OK) {
      inbox_bytes_ += operation->payload.size();
      operation->event.payload = std::move(operation->payload);
      inbox_.push_back(std::move(operation->event));
    }
  } else {
    sending_bytes_ -= operation->payload.size();
  }
  operations_.erase(operation->self);
  if (status != UCS_OK && status != UCS_ERR_CANCELED) Lose(peer, UcxError("UCX request", status));
}

void UcxWorker::SendCallback(void* request, ucs_status_t status, void* raw) {
  auto* operation = static_cast<Operation*>(raw);
  operation->worker->Finish(operation, status);
  ucp_request_free(request);
}

void UcxWorker::ReceiveCallback(void* request, ucs_status_t status, size_t, void* raw) {
  auto* operation = static_cast<Operation*>(raw);
  operation->worker->Finish(operation, status);
  ucp_request_free(request);
}

void UcxWorker::ErrorCallback(void* raw, ucp_ep_h endpoint, ucs_status_t status) {
  // Closing is left to Poll: this runs inside of UCX.
  static_cast<UcxWorker*>(raw)->failed_.emplace_back(endpoint, status);
}

void UcxWorker::Lose(PeerId peer, const Status& why) {
  if (!peers_.contains(peer)) return;
  Drop(peer);
  inbox_.push_back({LinkEvent::What::kLost, peer, {}, {}, why});
}

void UcxWorker::Drop(PeerId id) {
  const auto found = peers_.find(id);
  if (found == peers_.end()) return;
  const ucp_ep_h endpoint = found->second.endpoint;
  by_address_.erase(found->second.address);
  peers_.erase(found);
  // Through the list of failed ones, because this may run inside of a callback.
  if (endpoint != nullptr) failed_.emplace_back(endpoint, UCS_ERR_CANCELED);
}

void UcxWorker::CloseEndpoint(ucp_ep_h endpoint) {
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  const ucs_status_ptr_t request = ucp_ep_close_nbx(endpoint, &param);
  if (UCS_PTR_IS_PTR(request)) closing_.push_back(request);
}

void UcxWorker::CloseFailed() {
  for (const auto& [endpoint, status] : std::exchange(failed_, {})) {
    const auto found = by_endpoint_.find(endpoint);
    if (found == by_endpoint_.end()) continue;  // reported twice, closed already
    const PeerId peer = found->second;
    by_endpoint_.erase(found);
    CloseEndpoint(endpoint);
    Lose(peer, UcxError("connection lost", status));
  }
  std::erase_if(closing_, [](ucs_status_ptr_t request) {
    if (ucp_request_check_status(request) == UCS_INPROGRESS) return false;
    ucp_request_free(request);
    return true;
  });
}

void UcxWorker::CheckDeadlines() {
  const MonoTime now = clock_->Now();
  std::vector<PeerId> late;
  for (const Operation& operation : operations_) {
    if (now < operation.deadline) break;  // oldest first, equal timeouts
    late.push_back(operation.peer);
  }
  for (const PeerId peer : late) {
    Lose(peer, DeadlineExceededError("UCX did not finish a request in time"));
  }
}

void UcxWorker::Poll(std::vector<LinkEvent>* events) {
  while (inbox_bytes_ < kPollBytesMax && inbox_.size() < kQueuedMessagesMax &&
         ucp_worker_progress(worker_) != 0) {
  }
  CheckDeadlines();
  CloseFailed();
  for (LinkEvent& event : inbox_) events->push_back(std::move(event));
  inbox_.clear();
  inbox_bytes_ = 0;
}

ucs_status_t UcxWorker::AmCallback(void* self, const void* header, size_t header_bytes, void* body,
                                   size_t body_bytes, const ucp_am_recv_param_t* param) {
  return static_cast<UcxWorker*>(self)->OnFrame(header, header_bytes, body, body_bytes, param);
}

// Bytes that are no frame are dropped; the protocol repeats what matters.
ucs_status_t UcxWorker::OnFrame(const void* header, size_t header_bytes, void* body,
                                size_t body_bytes, const ucp_am_recv_param_t* param) {
  const bool later = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
  LinkEvent event;
  if (header_bytes == 0) {
    if (!later && ParseFrame({static_cast<const char*>(body), body_bytes}, &event) &&
        event.message.kind != Kind::kData) {
      inbox_.push_back(std::move(event));
    }
    return UCS_OK;
  }
  if (body_bytes > kPushBytes ||
      !ParseFrame({static_cast<const char*>(header), header_bytes}, &event) ||
      event.message.kind != Kind::kData) {
    return UCS_OK;
  }
  if (later) return ReceiveLater(std::move(event), body, body_bytes);
  const auto* bytes = static_cast<const std::byte*>(body);
  event.payload.assign(bytes, bytes + body_bytes);
  inbox_bytes_ += body_bytes;
  inbox_.push_back(std::move(event));
  return UCS_OK;
}

bool UcxWorker::ParseFrame(std::string_view frame, LinkEvent* event) {
  if (frame.size() < 2) return false;
  const size_t address_bytes =
      static_cast<uint8_t>(frame[0]) + static_cast<uint8_t>(frame[1]) * 256u;
  frame.remove_prefix(2);
  if (address_bytes == 0 || address_bytes > kAddressBytesMax || address_bytes > frame.size()) {
    return false;
  }
  Result<Message> message = DecodeMessage(frame.substr(address_bytes));
  if (!message.ok() || message->kind == Kind::kHello) return false;
  event->message = std::move(*message);
  event->peer = PeerAt(std::string(frame.substr(0, address_bytes)));
  return true;
}

ucs_status_t UcxWorker::ReceiveLater(LinkEvent event, void* descriptor, size_t bytes) {
  Operation* operation = Begin(event.peer);
  operation->receives = true;
  operation->event = std::move(event);
  operation->payload.resize(bytes);
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.cb.recv_am = &UcxWorker::ReceiveCallback;
  param.user_data = operation;
  const ucs_status_ptr_t request =
      ucp_am_recv_data_nbx(worker_, descriptor, operation->payload.data(), bytes, &param);
  if (request == nullptr) {
    Finish(operation, UCS_OK);
  } else if (UCS_PTR_IS_ERR(request)) {
    Finish(operation, UCS_PTR_STATUS(request));
    return UCS_OK;
  }
  return UCS_INPROGRESS;
}

}  // namespace baton::transfer
