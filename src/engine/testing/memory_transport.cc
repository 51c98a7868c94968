#include "src/engine/testing/memory_transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace baton::engine::testing {

MemorySource::MemorySource(MemoryFabric* fabric, std::string endpoint, backend::Buffer pool,
                           backend::KvShape shape, const Clock* clock)
    : fabric_(fabric), endpoint_(std::move(endpoint)), pool_(pool), shape_(shape), clock_(clock) {
  fabric_->sources[endpoint_] = this;
}

MemorySource::~MemorySource() { fabric_->sources.erase(endpoint_); }

Status MemorySource::Offer(const transfer::OfferSpec& offer) {
  if (refuse_) return ResourceExhaustedError("too many leases");
  if (leases_.contains(offer.lease) || ended_.contains(offer.lease)) {
    return AlreadyExistsError(fmt::format("lease {}", offer.lease));
  }
  leases_[offer.lease] = {offer, "", std::min(offer.offer_deadline, offer.request_deadline)};
  return OkStatus();
}

void MemorySource::Withdraw(uint64_t lease, const std::string& reason) {
  if (leases_.contains(lease)) End(lease, transfer::LeaseEnd::kWithdrawn, reason);
}

std::vector<transfer::LeaseEnded> MemorySource::Poll() {
  const MonoTime now = clock_->Now();
  std::vector<std::pair<uint64_t, bool>> due;
  for (const auto& [id, lease] : leases_) {
    if (now >= lease.deadline) due.emplace_back(id, lease.peer.empty());
  }
  for (const auto& [id, unasked] : due) {
    End(id, unasked ? transfer::LeaseEnd::kOfferExpired : transfer::LeaseEnd::kTransferExpired, "");
  }
  return std::exchange(reports_, {});
}

void MemorySource::End(uint64_t lease, transfer::LeaseEnd end, const std::string& reason) {
  reports_.push_back({lease, end, reason});
  ended_[lease] = reason;
  leases_.erase(lease);
}

Result<std::optional<transfer::OfferSpec>> MemorySource::Ask(uint64_t lease,
                                                             const std::string& peer) {
  if (ended_.contains(lease)) return AbortedError("the lease has ended: " + ended_[lease]);
  const auto it = leases_.find(lease);
  if (it == leases_.end()) return std::optional<transfer::OfferSpec>();
  if (!it->second.peer.empty() && it->second.peer != peer) {
    return AlreadyExistsError("taken by " + it->second.peer);
  }
  it->second.peer = peer;
  it->second.deadline = std::min(clock_->Now() + it->second.offer.transfer_timeout,
                                 it->second.offer.request_deadline);
  return std::optional(it->second.offer);
}

Status MemorySource::Read(uint64_t lease, BlockId block, std::byte* to) {
  const auto it = leases_.find(lease);
  if (it == leases_.end()) return AbortedError("stale: the lease ended in the middle");
  it->second.deadline = std::min(clock_->Now() + it->second.offer.transfer_timeout,
                                 it->second.offer.request_deadline);
  std::memcpy(to, pool_.data + block.value * shape_.block_bytes(), shape_.block_bytes());
  return OkStatus();
}

Status MemorySource::Done(uint64_t lease) {
  if (!leases_.contains(lease)) return AbortedError("stale: the lease ended before the last byte");
  End(lease, transfer::LeaseEnd::kDone, "");
  return OkStatus();
}

void MemorySource::PeerAborts(uint64_t lease, const std::string& peer) {
  const auto it = leases_.find(lease);
  if (it != leases_.end() && it->second.peer == peer) {
    End(lease, transfer::LeaseEnd::kAborted, peer);
  }
}

MemorySink::MemorySink(MemoryFabric* fabric, uint32_t rank, backend::Buffer pool,
                       backend::KvShape shape, const Clock* clock, uint64_t seed)
    : fabric_(fabric), rank_(rank), pool_(pool), shape_(shape), clock_(clock), rng_(seed) {}

Result<uint64_t> MemorySink::Start(const transfer::FetchSpec& spec) {
  if (spec.descriptor.layout.block_tokens != shape_.block_tokens) {
    return InvalidArgumentError(fmt::format("block_tokens: owner {}, receiver {}",
                                            spec.descriptor.layout.block_tokens,
                                            shape_.block_tokens));
  }
  Fetch fetch;
  fetch.spec = spec;
  fetch.next_block = spec.skip_blocks;
  for (const wire::RankEndpoint& endpoint : spec.descriptor.endpoints) {
    const auto it = fabric_->sources.find(endpoint.endpoint);
    if (endpoint.rank == rank_ && it != fabric_->sources.end()) fetch.source = it->second;
  }
  if (fetch.source == nullptr) return UnavailableError("the owner is away");
  const uint64_t count = ++fabric_->fetches;
  fetch.cut = fabric_->cut_every > 0 && count % fabric_->cut_every == 0;
  fetches_.emplace(next_, std::move(fetch));
  return next_++;
}

void MemorySink::Abort(uint64_t fetch, const std::string& reason) {
  const auto it = fetches_.find(fetch);
  if (it != fetches_.end()) it->second.aborted = CancelledError(reason);
}

std::vector<transfer::FetchEnded> MemorySink::Poll() {
  std::vector<transfer::FetchEnded> ended;
  for (auto it = fetches_.begin(); it != fetches_.end();) {
    Fetch& fetch = it->second;
    const std::optional<Status> status = Step(&fetch);
    if (!status.has_value()) {
      ++it;
      continue;
    }
    if (!status->ok()) fetch.source->PeerAborts(fetch.spec.descriptor.lease, fetch.spec.receiver);
    ended.push_back({it->first, *status, fetch.bytes});
    it = fetches_.erase(it);
  }
  return ended;
}

std::optional<Status> MemorySink::Step(Fetch* fetch) {
  const transfer::FetchSpec& spec = fetch->spec;
  if (!fetch->aborted.ok()) {
    if (rng_.Chance(0.3)) return fetch->aborted;
    // A copy on its way cannot be called back: until the end is reported the blocks are not safe.
    const size_t block = spec.blocks[spec.skip_blocks].value;
    std::memset(pool_.data + block * shape_.block_bytes(), 0x5a, shape_.block_bytes());
    return std::nullopt;
  }
  if (clock_->Now() >= spec.deadline) return DeadlineExceededError("waited for the owner's bytes");
  if (fabric_->stalled || rng_.Chance(0.3)) return std::nullopt;
  const uint64_t lease = spec.descriptor.lease;
  if (!fetch->granted.has_value()) {
    auto asked = fetch->source->Ask(lease, spec.receiver);
    if (!asked.ok()) return asked.status();
    fetch->granted = *asked;
    return std::nullopt;
  }
  if (fetch->cut && fetch->next_block > spec.skip_blocks) return DataLossError("cut in the middle");
  if (fetch->next_block >= spec.blocks.size()) return fetch->source->Done(lease);
  std::byte* to = pool_.data + spec.blocks[fetch->next_block].value * shape_.block_bytes();
  const Status read = fetch->source->Read(lease, fetch->granted->blocks[fetch->next_block], to);
  if (!read.ok()) return read;
  ++fetch->next_block;
  ++blocks_moved_;
  fetch->bytes += shape_.block_bytes();
  return std::nullopt;
}

}  // namespace baton::engine::testing
