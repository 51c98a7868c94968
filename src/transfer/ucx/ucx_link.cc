#include "src/transfer/ucx/ucx_link.h"

#include <string>
#include <utility>
#include <vector>

#include "src/transfer/ucx/ucx_worker.h"

namespace baton::transfer {
namespace {

constexpr char kScheme[] = "ucx:";
constexpr char kDigits[] = "0123456789abcdef";

std::string ToHex(const std::string& bytes) {
  std::string hex;
  for (const char c : bytes) {
    hex.push_back(kDigits[static_cast<uint8_t>(c) >> 4]);
    hex.push_back(kDigits[static_cast<uint8_t>(c) & 15]);
  }
  return hex;
}

// Empty when it is not hex.
std::string FromHex(std::string_view hex) {
  std::string bytes;
  const std::string_view digits = kDigits;
  if (hex.size() % 2 != 0) return "";
  for (size_t i = 0; i < hex.size(); i += 2) {
    const size_t high = digits.find(hex[i]);
    const size_t low = digits.find(hex[i + 1]);
    if (high == std::string_view::npos || low == std::string_view::npos) return "";
    bytes.push_back(static_cast<char>(high * 16 + low));
  }
  return bytes;
}

class UcxOwnerLink : public OwnerLink {
 public:
  explicit UcxOwnerLink(std::unique_ptr<UcxWorker> worker) : worker_(std::move(worker)) {}
  std::string endpoint() const override { return kScheme + ToHex(worker_->address()); }
  void Poll(std::vector<LinkEvent>* events) override { worker_->Poll(events); }
  void Send(PeerId peer, const Message& message) override { worker_->SendControl(peer, message); }
  void Drop(PeerId peer) override { worker_->Drop(peer); }
  bool pushes() const override { return true; }
  bool Push(PeerId peer, const Message& message, std::vector<std::byte>* payload) override {
    return worker_->SendData(peer, message, payload);
  }

 private:
  std::unique_ptr<UcxWorker> worker_;
};

class UcxReceiverLink : public ReceiverLink {
 public:
  explicit UcxReceiverLink(std::unique_ptr<UcxWorker> worker) : worker_(std::move(worker)) {}
  Result<PeerId> Connect(const std::string& endpoint) override {
    const std::string address =
        endpoint.starts_with(kScheme)
            ? FromHex(std::string_view(endpoint).substr(sizeof(kScheme) - 1))
            : "";
    if (address.empty()) {
      return InvalidArgumentError("'" + endpoint.substr(0, 40) + "' is not an endpoint of UCX");
    }
    return worker_->PeerAt(address);
  }
  void Poll(std::vector<LinkEvent>* events) override { worker_->Poll(events); }
  void Send(PeerId peer, const Message& message) override { worker_->SendControl(peer, message); }
  void Drop(PeerId peer) override { worker_->Drop(peer); }

 private:
  std::unique_ptr<UcxWorker> worker_;
};

}  // namespace

Result<std::unique_ptr<OwnerLink>> MakeUcxOwnerLink(const Clock* clock) {
  ASSIGN_OR_RETURN(auto worker, UcxWorker::Create(UcxSide::kOwner, clock));
  return std::unique_ptr<OwnerLink>(std::make_unique<UcxOwnerLink>(std::move(worker)));
}

Result<std::unique_ptr<ReceiverLink>> MakeUcxReceiverLink(const Clock* clock) {
  ASSIGN_OR_RETURN(auto worker, UcxWorker::Create(UcxSide::kReceiver, clock));
  return std::unique_ptr<ReceiverLink>(std::make_unique<UcxReceiverLink>(std::move(worker)));
}

}  // namespace baton::transfer
