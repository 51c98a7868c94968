#include "src/transfer/owner.h"

#include <algorithm>
#include <utility>

#include "src/base/check.h"
#include "src/transfer/layout.h"

namespace baton::transfer {
namespace {

RefuseCode CodeOf(LeaseEnd end) {
  return end == LeaseEnd::kOfferExpired || end == LeaseEnd::kTransferExpired ? RefuseCode::kExpired
                                                                             : RefuseCode::kEnded;
}

std::string Name(const std::string& receiver, uint32_t rank) {
  return receiver + " rank " + std::to_string(rank);
}

}  // namespace

Owner::Owner(const LocalRank& local, OwnerLimits limits) : local_(local), limits_(limits) {}

Status Owner::Offer(const OfferSpec& offer, MonoTime now) {
  const std::string name = "lease " + std::to_string(offer.lease);
  if (leases_.contains(offer.lease) || tombstones_.contains(offer.lease)) {
    return AlreadyExistsError(name + " was offered before");
  }
  if (leases_.size() >= limits_.leases_max) {
    return ResourceExhaustedError(name + ": " + std::to_string(leases_.size()) +
                                  " leases are open already");
  }
  if (offer.blocks.size() > kHandoffBlocksMax) {
    return InvalidArgumentError(name + " has " + std::to_string(offer.blocks.size()) + " blocks");
  }
  for (const BlockId block : offer.blocks) {
    if (block.value >= local_.shape.blocks) {
      return InvalidArgumentError(name + ": block " + std::to_string(block.value) +
                                  " is outside the pool of " + std::to_string(local_.shape.blocks));
    }
  }
  Lease lease;
  lease.offer = offer;
  lease.deadline = std::min(offer.offer_deadline, offer.request_deadline);
  next_deadline_ = std::min(next_deadline_, lease.deadline);
  leases_.emplace(offer.lease, std::move(lease));
  ExpireIfDue(offer.lease, now);
  return OkStatus();
}

void Owner::Withdraw(uint64_t lease, const std::string& reason) {
  End(lease, LeaseEnd::kWithdrawn, "withdrawn: " + reason);
}

void Owner::OnMessage(PeerId from, const Message& message, MonoTime now) {
  ExpireIfDue(message.lease, now);
  switch (message.kind) {
    case Kind::kAsk:
      OnAsk(from, message, now);
      break;
    case Kind::kFetch:
      OnFetch(message, now);
      break;
    case Kind::kDone:
      OnDone(from, message, now);
      break;
    case Kind::kAbort:
      OnAbort(message);
      break;
    default:
      ++dropped_;
  }
}

void Owner::OnAsk(PeerId from, const Message& ask, MonoTime now) {
  if (ask.instance != local_.instance || ask.owner_epoch != local_.instance_epoch.value ||
      ask.owner_rank != local_.rank) {
    return Send(from, ask, Kind::kRefuse, RefuseCode::kStaleEpoch,
                "this is " + Name(local_.instance, local_.rank) + " of epoch " +
                    std::to_string(local_.instance_epoch.value) + ", asked for " +
                    Name(ask.instance, ask.owner_rank) + " of epoch " +
                    std::to_string(ask.owner_epoch));
  }
  const auto tombstone = tombstones_.find(ask.lease);
  if (tombstone != tombstones_.end()) {
    return Send(from, ask, Kind::kRefuse, CodeOf(tombstone->second.end), tombstone->second.reason);
  }
  const auto found = leases_.find(ask.lease);
  if (found == leases_.end()) return Send(from, ask, Kind::kWait);  // not offered yet
  Lease& lease = found->second;
  RefuseCode code = RefuseCode::kMismatch;
  if (const std::string reason = WhyNot(lease, ask, &code); !reason.empty()) {
    return Send(from, ask, Kind::kRefuse, code, reason);
  }
  if (lease.receiver.empty()) Bind(&lease, ask);
  const auto [reader, fresh] = lease.readers.try_emplace(
      ask.receiver_rank, Reader{ask.fetch, from, ask.skip_blocks, 0, false, false});
  if (fresh) Renew(&lease, now);
  reader->second.peer = from;
  Send(from, ask, Kind::kGrant);
  outgoing_.back().message.timeout_ns =
      static_cast<uint64_t>(std::max<int64_t>(0, lease.offer.transfer_timeout.count()));
}

std::string Owner::WhyNot(const Lease& lease, const Message& ask, RefuseCode* code) const {
  if (ask.attempt != lease.offer.attempt.value) {
    *code = RefuseCode::kStaleEpoch;
    return "lease is of attempt " + std::to_string(lease.offer.attempt.value) + ", not " +
           std::to_string(ask.attempt);
  }
  if (lease.receiver.empty()) {
    *code = RefuseCode::kMismatch;
    return CheckAsked(lease, ask).message();
  }
  if (lease.receiver != ask.receiver) {
    *code = RefuseCode::kTaken;
    return "taken by " + lease.receiver;
  }
  const auto reader = lease.readers.find(ask.receiver_rank);
  if (reader != lease.readers.end() && reader->second.fetch != ask.fetch) {
    *code = RefuseCode::kTaken;
    return "taken by another fetch of " + Name(ask.receiver, ask.receiver_rank);
  }
  *code = RefuseCode::kMismatch;
  if (!(lease.layout == ask.layout)) return "ranks of one receiver name different layouts";
  return CheckAsked(lease, ask).message();
}

Status Owner::CheckAsked(const Lease& lease, const Message& ask) const {
  if (ask.receiver.empty()) return InvalidArgumentError("the receiver has no name");
  BATON_RETURN_IF_ERROR(CheckPairing(local_.layout, ask.layout));
  if (ask.blocks != lease.offer.blocks.size()) {
    return InvalidArgumentError("the descriptor has " + std::to_string(ask.blocks) +
                                " blocks, the lease " + std::to_string(lease.offer.blocks.size()));
  }
  if (ask.receiver_rank >= RankCount(ask.layout)) {
    return InvalidArgumentError("receiver rank " + std::to_string(ask.receiver_rank) + " of " +
                                std::to_string(RankCount(ask.layout)));
  }
  const std::vector<uint32_t> readers =
      lease.expected.empty() ? ReadersOf(local_.layout, ask.layout, local_.rank) : lease.expected;
  if (!std::binary_search(readers.begin(), readers.end(), ask.receiver_rank)) {
    return InvalidArgumentError("receiver rank " + std::to_string(ask.receiver_rank) +
                                " has nothing to ask of owner rank " + std::to_string(local_.rank));
  }
  return OkStatus();
}

void Owner::Bind(Lease* lease, const Message& ask) const {
  lease->receiver = ask.receiver;
  lease->layout = ask.layout;
  lease->expected = ReadersOf(local_.layout, ask.layout, local_.rank);
}

void Owner::Renew(Lease* lease, MonoTime now) {
  lease->deadline = std::min(now + lease->offer.transfer_timeout, lease->offer.request_deadline);
  next_deadline_ = std::min(next_deadline_, lease->deadline);
}

Owner::Reader* Owner::FindReader(const Message& message) {
  const auto lease = leases_.find(message.lease);
  if (lease == leases_.end() || message.owner_epoch != local_.instance_epoch.value) return nullptr;
  const auto reader = lease->second.readers.find(message.receiver_rank);
  if (reader == lease->second.readers.end() || reader->second.fetch != message.fetch) {
    return nullptr;
  }
  return &reader->second;
}

void Owner::OnFetch(const Message& fetch, MonoTime now) {
  Reader* reader = FindReader(fetch);
  if (reader == nullptr || reader->done) {
    ++dropped_;
    return;
  }
  reader->fetching = true;
  if (fetch.bytes <= reader->received) return;
  reader->received = fetch.bytes;
  Renew(&leases_.at(fetch.lease), now);
}

void Owner::OnDone(PeerId from, const Message& done, MonoTime now) {
  if (Reader* reader = FindReader(done); reader != nullptr) {
    Lease& lease = leases_.at(done.lease);
    if (!reader->done) {
      reader->done = true;
      Renew(&lease, now);
    }
    Send(from, done, Kind::kValid);
    const bool all = std::all_of(lease.expected.begin(), lease.expected.end(), [&](uint32_t rank) {
      const auto found = lease.readers.find(rank);
      return found != lease.readers.end() && found->second.done;
    });
    if (all) End(done.lease, LeaseEnd::kDone, "taken by " + lease.receiver);
    return;
  }
  const auto tombstone = tombstones_.find(done.lease);
  if (tombstone == tombstones_.end() || done.owner_epoch != local_.instance_epoch.value) {
    return Send(from, done, Kind::kStale, RefuseCode::kEnded, "no such lease or reader");
  }
  // The first answer was lost: what was valid stays valid, since these bytes were complete then.
  const auto valid = tombstone->second.valid.find(done.receiver_rank);
  if (valid != tombstone->second.valid.end() && valid->second == done.fetch) {
    return Send(from, done, Kind::kValid);
  }
  Send(from, done, Kind::kStale, RefuseCode::kEnded, tombstone->second.reason);
}

void Owner::OnAbort(const Message& abort) {
  const auto found = leases_.find(abort.lease);
  if (found == leases_.end() || abort.instance != local_.instance ||
      abort.owner_epoch != local_.instance_epoch.value || abort.owner_rank != local_.rank ||
      abort.attempt != found->second.offer.attempt.value) {
    ++dropped_;
    return;
  }
  // Somebody who was refused may not end the lease of who holds it.
  const Lease& lease = found->second;
  const auto reader = lease.readers.find(abort.receiver_rank);
  const bool foreign = !lease.receiver.empty() && lease.receiver != abort.receiver;
  if (foreign || (reader != lease.readers.end() && reader->second.fetch != abort.fetch)) {
    ++dropped_;
    return;
  }
  End(abort.lease, LeaseEnd::kAborted,
      "aborted by " + Name(abort.receiver, abort.receiver_rank) + ": " + abort.reason);
}

void Owner::OnPeerLost(PeerId peer, const std::string& why) {
  std::vector<std::pair<uint64_t, std::string>> hit;
  for (const auto& [number, lease] : leases_) {
    for (const auto& [rank, reader] : lease.readers) {
      if (reader.peer != peer || reader.done) continue;
      hit.emplace_back(number, "lost " + Name(lease.receiver, rank) + ": " + why);
      break;
    }
  }
  for (const auto& [number, reason] : hit) End(number, LeaseEnd::kAborted, reason);
}

void Owner::OnTime(MonoTime now) {
  if (now < next_deadline_) return;
  std::vector<uint64_t> numbers;
  next_deadline_ = MonoTime::Max();
  for (const auto& [number, lease] : leases_) {
    if (lease.deadline <= now) {
      numbers.push_back(number);
    } else {
      next_deadline_ = std::min(next_deadline_, lease.deadline);
    }
  }
  for (const uint64_t number : numbers) ExpireIfDue(number, now);
}

void Owner::ExpireIfDue(uint64_t number, MonoTime now) {
  const auto found = leases_.find(number);
  if (found == leases_.end() || now < found->second.deadline) return;
  const Lease& lease = found->second;
  const bool asked = !lease.receiver.empty();
  const std::string cause =
      now >= lease.offer.request_deadline ? "the request's deadline passed" : "no progress in time";
  End(number, asked ? LeaseEnd::kTransferExpired : LeaseEnd::kOfferExpired,
      asked ? "transfer expired: " + cause + ", waited for " + Waiting(lease)
            : std::string("offer expired: nobody asked"));
}

std::string Owner::Waiting(const Lease& lease) const {
  std::string ranks;
  for (const uint32_t rank : lease.expected) {
    const auto reader = lease.readers.find(rank);
    if (reader != lease.readers.end() && reader->second.done) continue;
    ranks += ranks.empty() ? "" : ",";
    ranks += std::to_string(rank);
  }
  return lease.receiver + " rank " + ranks;
}

void Owner::End(uint64_t number, LeaseEnd end, const std::string& reason) {
  const auto found = leases_.find(number);
  if (found == leases_.end()) return;
  Tombstone tombstone{end, reason, {}};
  for (const auto& [rank, reader] : found->second.readers) {
    if (reader.done) {
      tombstone.valid[rank] = reader.fetch;
    } else {
      TellStale(number, rank, reader, reason);
    }
  }
  leases_.erase(found);
  tombstones_.emplace(number, std::move(tombstone));
  tombstone_order_.push_back(number);
  if (tombstone_order_.size() > limits_.remembered_max) {
    tombstones_.erase(tombstone_order_.front());
    tombstone_order_.pop_front();
  }
  ended_.push_back({number, end, reason});
}

// So that a receiver learns at once what its own done would tell it later.
void Owner::TellStale(uint64_t number, uint32_t rank, const Reader& reader,
                      const std::string& reason) {
  Message about;
  about.lease = number;
  about.fetch = reader.fetch;
  about.owner_epoch = local_.instance_epoch.value;
  about.owner_rank = local_.rank;
  about.receiver_rank = rank;
  Send(reader.peer, about, Kind::kStale, RefuseCode::kEnded, reason);
}

void Owner::Send(PeerId to, const Message& about, Kind kind, RefuseCode code,
                 const std::string& reason) {
  Message message;
  message.kind = kind;
  message.lease = about.lease;
  message.fetch = about.fetch;
  message.owner_epoch = about.owner_epoch;
  message.owner_rank = about.owner_rank;
  message.receiver_rank = about.receiver_rank;
  message.code = code;
  message.reason = reason;
  outgoing_.push_back({to, std::move(message)});
}

std::vector<Outgoing> Owner::TakeMessages() { return std::exchange(outgoing_, {}); }
std::vector<LeaseEnded> Owner::TakeEnded() { return std::exchange(ended_, {}); }

std::vector<Owner::Push> Owner::Pushes() const {
  std::vector<Push> pushes;
  for (const auto& [number, lease] : leases_) {
    for (const auto& [rank, reader] : lease.readers) {
      if (!reader.fetching || reader.done) continue;
      pushes.push_back({number, reader.fetch, reader.peer, rank, reader.received,
                        reader.skip_blocks, &lease.offer, &lease.layout});
    }
  }
  return pushes;
}

}  // namespace baton::transfer
