#include "src/transfer/receiver.h"

#include <algorithm>
#include <utility>

#include "src/base/check.h"

namespace baton::transfer {
namespace {

// A report of progress for each MiB: the owner renews its deadline by them, and a transport that
// pushes sends as far ahead as they allow.
constexpr uint64_t kReportBytes = 1u << 20;

std::string OwnerName(const wire::HandoffDescriptor& d, uint32_t rank) {
  return d.instance + " rank " + std::to_string(rank) + " (epoch " +
         std::to_string(d.instance_epoch.value) + ", lease " + std::to_string(d.lease) + ")";
}

Status CheckTexts(const FetchSpec& spec) {
  const wire::HandoffDescriptor& d = spec.descriptor;
  if (d.instance.empty() || d.instance.size() > kNameBytesMax) {
    return InvalidArgumentError("instance name of " + std::to_string(d.instance.size()) +
                                " bytes, must be 1.." + std::to_string(kNameBytesMax));
  }
  if (spec.receiver.empty() || spec.receiver.size() > kReceiverBytesMax) {
    return InvalidArgumentError("receiver name of " + std::to_string(spec.receiver.size()) +
                                " bytes, must be 1.." + std::to_string(kReceiverBytesMax));
  }
  return OkStatus();
}

Status CheckBlocks(const FetchSpec& spec, uint32_t pool_blocks) {
  const size_t count = spec.descriptor.blocks.size();
  if (count > kHandoffBlocksMax) {
    return InvalidArgumentError("descriptor with " + std::to_string(count) + " blocks, at most " +
                                std::to_string(kHandoffBlocksMax));
  }
  if (spec.blocks.size() != count) {
    return InvalidArgumentError("descriptor has " + std::to_string(count) + " blocks, room for " +
                                std::to_string(spec.blocks.size()));
  }
  if (spec.skip_blocks > count) {
    return InvalidArgumentError("skips " + std::to_string(spec.skip_blocks) + " of " +
                                std::to_string(count) + " blocks");
  }
  for (const BlockId block : spec.blocks) {
    if (block.value >= pool_blocks) {
      return InvalidArgumentError("block " + std::to_string(block.value) +
                                  " is outside the pool of " + std::to_string(pool_blocks));
    }
  }
  return OkStatus();
}

std::vector<uint32_t> Values(const std::vector<BlockId>& blocks) {
  std::vector<uint32_t> values;
  values.reserve(blocks.size());
  for (const BlockId block : blocks) values.push_back(block.value);
  return values;
}

Status FromRefusal(const Message& refusal, const std::string& owner) {
  const std::string text =
      owner + " refused: " + std::string(RefuseCodeName(refusal.code)) + ": " + refusal.reason;
  switch (refusal.code) {
    case RefuseCode::kTaken:
      return AlreadyExistsError(text);
    case RefuseCode::kMismatch:
      return InvalidArgumentError(text);
    case RefuseCode::kExpired:
    case RefuseCode::kEnded:
    case RefuseCode::kStaleEpoch:
      break;
  }
  return AbortedError(text);
}

}  // namespace

Receiver::Receiver(const LocalRank& local, ReceiverLimits limits)
    : local_(local),
      limits_(limits),
      // Numbers differ between lives of this rank, so that an answer to an old one finds nothing.
      next_id_((local.instance_epoch.value << 32) + 1) {}

Result<std::vector<wire::RankEndpoint>> Receiver::Prepare(const FetchSpec& spec) const {
  const wire::HandoffDescriptor& d = spec.descriptor;
  BATON_RETURN_IF_ERROR(CheckTexts(spec));
  BATON_RETURN_IF_ERROR(CheckPairing(d.layout, local_.layout));
  BATON_RETURN_IF_ERROR(CheckBlocks(spec, local_.shape.blocks));
  if (used_.contains(Use{d.instance, d.instance_epoch.value, d.lease})) {
    return AlreadyExistsError("the descriptor of lease " + std::to_string(d.lease) + " of " +
                              d.instance + " was used before");
  }
  if (fetches_.size() >= limits_.fetches_max) {
    return ResourceExhaustedError(std::to_string(fetches_.size()) + " fetches run already");
  }
  std::vector<wire::RankEndpoint> endpoints;
  for (const Leg& leg : PlanLegs(d.layout, local_.layout, local_.rank)) {
    const auto found = std::find_if(d.endpoints.begin(), d.endpoints.end(),
                                    [&](const auto& e) { return e.rank == leg.owner_rank; });
    if (found == d.endpoints.end()) {
      return InvalidArgumentError("descriptor names no endpoint of " +
                                  OwnerName(d, leg.owner_rank));
    }
    endpoints.push_back(*found);
  }
  return endpoints;
}

uint64_t Receiver::Start(const FetchSpec& spec, const std::vector<PeerId>& peers, MonoTime now) {
  const wire::HandoffDescriptor& d = spec.descriptor;
  const std::vector<Leg> legs = PlanLegs(d.layout, local_.layout, local_.rank);
  CHECK(peers.size() == legs.size());
  const uint64_t id = next_id_++;
  Fetch& fetch = fetches_[id];
  fetch.spec = spec;
  for (size_t i = 0; i < legs.size(); ++i) {
    LegState leg;
    leg.owner_rank = legs[i].owner_rank;
    leg.peer = peers[i];
    leg.stream = LegStream(d.layout, local_.layout, local_.rank, legs[i],
                           static_cast<uint32_t>(d.blocks.size()), spec.skip_blocks, d.blocks,
                           Values(spec.blocks));
    leg.retry = limits_.retry;
    leg.give_up = now + limits_.ask_timeout;
    fetch.legs.push_back(std::move(leg));
  }
  const Use use{d.instance, d.instance_epoch.value, d.lease};
  used_.insert(use);
  used_order_.push_back(use);
  if (used_order_.size() > limits_.remembered_max) {
    used_.erase(used_order_.front());
    used_order_.pop_front();
  }
  for (LegState& leg : fetch.legs) Repeat(id, fetch, &leg, now);
  return id;
}

void Receiver::Abort(uint64_t fetch, const std::string& reason) {
  Fail(fetch, CancelledError("aborted: " + reason));
}

void Receiver::OnMessage(PeerId from, const Message& message, MonoTime now) {
  const auto found = fetches_.find(message.fetch);
  LegState* leg = FindLeg(message.fetch, message.owner_rank);
  if (leg == nullptr || leg->peer != from || message.receiver_rank != local_.rank ||
      message.lease != found->second.spec.descriptor.lease ||
      message.owner_epoch != found->second.spec.descriptor.instance_epoch.value) {
    ++dropped_;
    return;
  }
  // An answer past the deadline counts no more.
  if (found->second.spec.deadline <= now) return OnTime(now);
  OnLegMessage(message.fetch, &found->second, leg, message, now);
}

void Receiver::OnLegMessage(uint64_t id, Fetch* fetch, LegState* leg, const Message& message,
                            MonoTime now) {
  const std::string owner = OwnerName(fetch->spec.descriptor, leg->owner_rank);
  if (message.kind == Kind::kGrant && leg->state == State::kAsking) {
    OnGrant(id, *fetch, leg, message, now);
  } else if (message.kind == Kind::kRefuse && leg->state == State::kAsking) {
    Fail(id, FromRefusal(message, owner));
  } else if (message.kind == Kind::kStale && leg->state != State::kValid) {
    Fail(id, AbortedError(owner + ": bytes are stale: " + message.reason));
  } else if (message.kind == Kind::kValid && leg->state == State::kConfirming) {
    leg->state = State::kValid;
    FinishIfValid(id);
  } else if (message.kind != Kind::kWait) {  // repeated or late; wait is what asking does anyway
    ++dropped_;
  }
}

void Receiver::OnGrant(uint64_t id, const Fetch& fetch, LegState* leg, const Message& grant,
                       MonoTime now) {
  if (leg->stream.total_bytes() == 0) return Confirm(id, fetch, leg, now);
  leg->state = State::kCopying;
  leg->give_up = now + limits_.progress_timeout;
  // Repeated in vain it renews nothing; it only replaces a lost one well before the owner gives up.
  const auto eighth = Nanos(std::min<uint64_t>(grant.timeout_ns / 8, INT64_MAX));
  leg->retry = std::max(limits_.retry_max, std::min(eighth, limits_.progress_timeout / 8));
  Repeat(id, fetch, leg, now);
}

void Receiver::Confirm(uint64_t id, const Fetch& fetch, LegState* leg, MonoTime now) {
  leg->state = State::kConfirming;
  leg->give_up = now + limits_.progress_timeout;
  leg->retry = limits_.retry;
  Repeat(id, fetch, leg, now);
}

void Receiver::OnCopied(uint64_t fetch, uint32_t owner_rank, uint64_t bytes, MonoTime now) {
  LegState* leg = FindLeg(fetch, owner_rank);
  if (leg == nullptr || leg->state != State::kCopying || bytes == 0) return;
  leg->received += bytes;
  CHECK(leg->received <= leg->stream.total_bytes());
  leg->give_up = now + limits_.progress_timeout;
  const Fetch& owner = fetches_.at(fetch);
  if (leg->received == leg->stream.total_bytes()) return Confirm(fetch, owner, leg, now);
  if (leg->received - leg->reported >= kReportBytes) Repeat(fetch, owner, leg, now);
}

void Receiver::OnCopyFailed(uint64_t fetch, uint32_t owner_rank, const Status& why) {
  const auto found = fetches_.find(fetch);
  if (found == fetches_.end()) return;
  Fail(fetch, why.WithContext(OwnerName(found->second.spec.descriptor, owner_rank)));
}

void Receiver::OnPeerLost(PeerId peer, const Status& why) {
  std::vector<std::pair<uint64_t, uint32_t>> hit;
  for (const auto& [id, fetch] : fetches_) {
    for (const LegState& leg : fetch.legs) {
      if (leg.peer != peer || leg.state == State::kValid) continue;
      hit.emplace_back(id, leg.owner_rank);
      break;
    }
  }
  for (const auto& [id, owner_rank] : hit) OnCopyFailed(id, owner_rank, why);
}

void Receiver::OnTime(MonoTime now) {
  std::vector<std::pair<uint64_t, Status>> late;
  for (auto& [id, fetch] : fetches_) {
    const bool expired = fetch.spec.deadline <= now;
    for (LegState& leg : fetch.legs) {
      if (leg.state == State::kValid) continue;
      if (expired || leg.give_up <= now) {
        late.emplace_back(id, Late(fetch, leg, expired ? "the fetch's deadline" : "its time"));
        break;
      }
      if (leg.next_send <= now) Repeat(id, fetch, &leg, now);
    }
  }
  for (const auto& [id, why] : late) Fail(id, why);
}

Status Receiver::Late(const Fetch& fetch, const LegState& leg, const std::string& what) const {
  const char* waited = leg.state == State::kAsking    ? "a grant"
                       : leg.state == State::kCopying ? "bytes"
                                                      : "valid";
  return DeadlineExceededError(what + " passed while waiting for " + waited + " from " +
                               OwnerName(fetch.spec.descriptor, leg.owner_rank) + ", " +
                               std::to_string(leg.received) + " of " +
                               std::to_string(leg.stream.total_bytes()) + " bytes are here");
}

void Receiver::Repeat(uint64_t id, const Fetch& fetch, LegState* leg, MonoTime now) {
  switch (leg->state) {
    case State::kAsking:
      SendLeg(id, fetch, leg, Kind::kAsk);
      break;
    case State::kCopying:
      SendLeg(id, fetch, leg, Kind::kFetch);
      break;
    case State::kConfirming:
      SendLeg(id, fetch, leg, Kind::kDone);
      break;
    case State::kValid:
      return;
  }
  leg->reported = leg->received;
  leg->next_send = now + leg->retry;
  if (leg->state != State::kCopying) leg->retry = std::min(leg->retry * 2, limits_.retry_max);
}

void Receiver::SendLeg(uint64_t id, const Fetch& fetch, LegState* leg, Kind kind,
                       const std::string& reason) {
  const wire::HandoffDescriptor& d = fetch.spec.descriptor;
  Message message;
  message.kind = kind;
  message.lease = d.lease;
  message.fetch = id;
  message.owner_epoch = d.instance_epoch.value;
  message.owner_rank = leg->owner_rank;
  message.receiver_rank = local_.rank;
  message.bytes = leg->received;
  message.reason = reason;
  if (kind == Kind::kAsk || kind == Kind::kAbort) {
    message.instance = d.instance;
    message.attempt = d.attempt.value;
    message.receiver = fetch.spec.receiver;
  }
  if (kind == Kind::kAsk) {
    message.layout = local_.layout;
    message.blocks = static_cast<uint32_t>(d.blocks.size());
    message.skip_blocks = fetch.spec.skip_blocks;
  }
  outgoing_.push_back({leg->peer, std::move(message)});
}

void Receiver::FinishIfValid(uint64_t id) {
  const auto found = fetches_.find(id);
  uint64_t bytes = 0;
  for (const LegState& leg : found->second.legs) {
    if (leg.state != State::kValid) return;
    bytes += leg.received;
  }
  fetches_.erase(found);
  ended_.push_back({id, OkStatus(), bytes});
}

void Receiver::Fail(uint64_t id, const Status& why) {
  const auto found = fetches_.find(id);
  if (found == fetches_.end()) return;
  uint64_t bytes = 0;
  for (LegState& leg : found->second.legs) {
    bytes += leg.received;
    // To those that were valid too: their lease may wait for further receiver ranks in vain.
    SendLeg(id, found->second, &leg, Kind::kAbort, why.message());
  }
  fetches_.erase(found);
  ended_.push_back({id, why, bytes});
}

Receiver::LegState* Receiver::FindLeg(uint64_t fetch, uint32_t owner_rank) {
  const auto found = fetches_.find(fetch);
  if (found == fetches_.end()) return nullptr;
  for (LegState& leg : found->second.legs) {
    if (leg.owner_rank == owner_rank) return &leg;
  }
  return nullptr;
}

std::vector<Receiver::Copy> Receiver::Copies() const {
  std::vector<Copy> copies;
  for (const auto& [id, fetch] : fetches_) {
    for (const LegState& leg : fetch.legs) {
      if (leg.state != State::kCopying) continue;
      copies.push_back({id, leg.owner_rank, leg.peer, leg.received, &leg.stream});
    }
  }
  return copies;
}

bool Receiver::FindCopy(PeerId from, const Message& message, Copy* copy) const {
  const auto found = fetches_.find(message.fetch);
  if (found == fetches_.end() || message.lease != found->second.spec.descriptor.lease) return false;
  for (const LegState& leg : found->second.legs) {
    if (leg.owner_rank != message.owner_rank || leg.peer != from) continue;
    if (leg.state != State::kCopying) return false;
    *copy = {message.fetch, leg.owner_rank, leg.peer, leg.received, &leg.stream};
    return true;
  }
  return false;
}

bool Receiver::Uses(PeerId peer) const {
  for (const auto& [id, fetch] : fetches_) {
    for (const LegState& leg : fetch.legs) {
      if (leg.peer == peer) return true;
    }
  }
  return false;
}

std::vector<Outgoing> Receiver::TakeMessages() { return std::exchange(outgoing_, {}); }
std::vector<FetchEnded> Receiver::TakeEnded() { return std::exchange(ended_, {}); }

}  // namespace baton::transfer
