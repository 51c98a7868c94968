#include "src/transfer/sim/sim_network.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "src/base/rng.h"
#include "src/transfer/local_rank.h"
#include "src/transfer/sink.h"
#include "src/transfer/source.h"

namespace baton::transfer {
namespace {

enum class Side : uint8_t { kOwner, kReceiver };

// All ranks of the network by number. A number is a PeerId to all others and never reused.
class Hub {
 public:
  Hub(const Clock* clock, const SimNetworkOptions& options)
      : clock_(clock), options_(options), rng_(options.seed) {}

  PeerId Join(const LocalRank& local) {
    std::lock_guard lock(mutex_);
    const PeerId id = next_++;
    Node& node = nodes_[id];
    node.instance = local.instance;
    node.pool = local.pool;
    node.endpoint = "sim:" + local.instance + "/" + std::to_string(local.instance_epoch.value) +
                    "/" + std::to_string(local.rank) + "/" + std::to_string(id);
    return id;
  }

  void Leave(PeerId id) {
    std::lock_guard lock(mutex_);
    const auto found = nodes_.find(id);
    if (found == nodes_.end()) return;
    const Status why = UnavailableError(found->second.endpoint + " is gone");
    nodes_.erase(found);
    for (auto& [other, node] : nodes_) {
      for (const Side side : {Side::kOwner, Side::kReceiver}) {
        node.inbox[side].emplace(clock_->Now(), LinkEvent{LinkEvent::What::kLost, id, {}, {}, why});
      }
    }
  }

  std::string EndpointOf(PeerId id) {
    std::lock_guard lock(mutex_);
    return nodes_.at(id).endpoint;
  }

  // A number that no rank has when nobody lives there: the peer is then reported lost.
  PeerId Find(PeerId self, const std::string& endpoint) {
    std::lock_guard lock(mutex_);
    for (const auto& [id, node] : nodes_) {
      if (node.endpoint == endpoint) return id;
    }
    const PeerId nobody = next_++;
    nodes_.at(self).inbox[Side::kReceiver].emplace(
        clock_->Now(), LinkEvent{LinkEvent::What::kLost,
                                 nobody,
                                 {},
                                 {},
                                 UnavailableError("nobody lives at " + endpoint)});
    return nobody;
  }

  void Send(PeerId from, PeerId to, Side side, const Message& message) {
    const std::string bytes = EncodeMessage(message);
    Result<Message> decoded = DecodeMessage(bytes);
    CHECK_OK(decoded.status());
    std::lock_guard lock(mutex_);
    const auto sender = nodes_.find(from);
    const auto target = nodes_.find(to);
    if (sender == nodes_.end() || target == nodes_.end() ||
        cuts_.contains(Pair(sender->second.instance, target->second.instance))) {
      return;
    }
    auto& inbox = target->second.inbox[side];
    for (int copies = 1 + rng_.Chance(options_.repeat); copies > 0; --copies) {
      if (rng_.Chance(options_.loss) || inbox.size() >= kQueuedMessagesMax) continue;
      const int64_t spread = (options_.delay_max - options_.delay_min).count();
      const Nanos delay =
          options_.delay_min + Nanos(spread > 0 ? rng_.Below(static_cast<uint64_t>(spread)) : 0);
      inbox.emplace(clock_->Now() + delay,
                    LinkEvent{LinkEvent::What::kMessage, from, *decoded, {}, {}});
    }
  }

  void Poll(PeerId self, Side side, std::vector<LinkEvent>* events) {
    std::lock_guard lock(mutex_);
    auto& inbox = nodes_.at(self).inbox[side];
    const auto end = inbox.upper_bound(clock_->Now());
    for (auto it = inbox.begin(); it != end; ++it) events->push_back(std::move(it->second));
    inbox.erase(inbox.begin(), end);
  }

  Status Pull(PeerId peer, uint64_t from, std::byte* to, size_t bytes) {
    std::lock_guard lock(mutex_);
    const auto found = nodes_.find(peer);
    if (found == nodes_.end()) return UnavailableError("the owner is gone");
    const backend::Buffer& pool = found->second.pool;
    if (from > pool.bytes || bytes > pool.bytes - from) {
      return InvalidArgumentError("block outside the owner's pool");
    }
    std::memcpy(to, pool.data + from, bytes);
    return OkStatus();
  }

  void Drop(PeerId self, PeerId peer, Side peer_side) {
    std::lock_guard lock(mutex_);
    const auto found = nodes_.find(peer);
    if (found == nodes_.end()) return;
    found->second.inbox[peer_side].emplace(
        clock_->Now(), LinkEvent{LinkEvent::What::kLost,
                                 self,
                                 {},
                                 {},
                                 UnavailableError(nodes_.at(self).endpoint + " hung up")});
  }

  void SetCut(const std::string& a, const std::string& b, bool cut) {
    std::lock_guard lock(mutex_);
    if (cut) {
      cuts_.insert(Pair(a, b));
    } else {
      cuts_.erase(Pair(a, b));
    }
  }

 private:
  struct Node {
    std::string instance;
    std::string endpoint;
    backend::Buffer pool;
    std::map<Side, std::multimap<MonoTime, LinkEvent>> inbox;
  };
  static std::pair<std::string, std::string> Pair(const std::string& a, const std::string& b) {
    return {std::min(a, b), std::max(a, b)};
  }

  std::mutex mutex_;
  const Clock* clock_;
  const SimNetworkOptions options_;
  Rng rng_;
  PeerId next_ = 1;
  std::map<PeerId, Node> nodes_;
  std::set<std::pair<std::string, std::string>> cuts_;
};

// One rank's place in the hub; both of its links hold it.
struct Place {
  explicit Place(std::shared_ptr<Hub> h, const LocalRank& local)
      : hub(std::move(h)), id(hub->Join(local)) {}
  ~Place() { hub->Leave(id); }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  std::shared_ptr<Hub> hub;
  PeerId id;
};

class SimOwnerLink : public OwnerLink {
 public:
  explicit SimOwnerLink(std::shared_ptr<Place> place) : place_(std::move(place)) {}
  std::string endpoint() const override { return place_->hub->EndpointOf(place_->id); }
  void Poll(std::vector<LinkEvent>* events) override {
    place_->hub->Poll(place_->id, Side::kOwner, events);
  }
  void Send(PeerId peer, const Message& message) override {
    place_->hub->Send(place_->id, peer, Side::kReceiver, message);
  }
  void Drop(PeerId peer) override { place_->hub->Drop(place_->id, peer, Side::kReceiver); }

 private:
  std::shared_ptr<Place> place_;
};

class SimReceiverLink : public ReceiverLink {
 public:
  explicit SimReceiverLink(std::shared_ptr<Place> place) : place_(std::move(place)) {}
  Result<PeerId> Connect(const std::string& endpoint) override {
    if (!endpoint.starts_with("sim:")) {
      return InvalidArgumentError("'" + endpoint + "' is not an endpoint of the sim transport");
    }
    return place_->hub->Find(place_->id, endpoint);
  }
  void Poll(std::vector<LinkEvent>* events) override {
    place_->hub->Poll(place_->id, Side::kReceiver, events);
  }
  void Send(PeerId peer, const Message& message) override {
    place_->hub->Send(place_->id, peer, Side::kOwner, message);
  }
  void Drop(PeerId peer) override { place_->hub->Drop(place_->id, peer, Side::kOwner); }
  bool pulls() const override { return true; }
  Status Pull(PeerId peer, uint64_t from, std::byte* to, size_t bytes) override {
    return place_->hub->Pull(peer, from, to, bytes);
  }

 private:
  std::shared_ptr<Place> place_;
};

class SimNetworkImpl : public SimNetwork {
 public:
  SimNetworkImpl(const Clock* clock, const SimNetworkOptions& options)
      : clock_(clock), hub_(std::make_shared<Hub>(clock, options)) {}

  Result<TransportPair> Make(const LocalRank& local) override {
    BATON_RETURN_IF_ERROR(CheckLocalRank(local));
    auto place = std::make_shared<Place>(hub_, local);
    return TransportPair{
        std::make_unique<Source>(local, std::make_unique<SimOwnerLink>(place), clock_),
        std::make_unique<Sink>(local, std::make_unique<SimReceiverLink>(place), clock_)};
  }
  void SetCut(const std::string& a, const std::string& b, bool cut) override {
    hub_->SetCut(a, b, cut);
  }

 private:
  const Clock* clock_;
  std::shared_ptr<Hub> hub_;
};

}  // namespace

std::unique_ptr<SimNetwork> MakeSimNetwork(const Clock* clock, const SimNetworkOptions& options) {
  return std::make_unique<SimNetworkImpl>(clock, options);
}

}  // namespace baton::transfer
