#include "src/transfer/sink.h"

#include <algorithm>
#include <cstring>

#include "src/base/fault.h"
#include "src/transfer/crc32c.h"

namespace baton::transfer {
namespace {

// One turn of a fetch: small enough that many take turns within one Poll.
constexpr uint64_t kTurnBytes = 1u << 20;

}  // namespace

Sink::Sink(const LocalRank& local, std::unique_ptr<ReceiverLink> link, const Clock* clock,
           ReceiverLimits limits)
    : local_(local), link_(std::move(link)), clock_(clock), receiver_(local, limits) {}

Result<uint64_t> Sink::Start(const FetchSpec& fetch) {
  ASSIGN_OR_RETURN(const std::vector<wire::RankEndpoint> endpoints, receiver_.Prepare(fetch));
  ASSIGN_OR_RETURN(const std::vector<PeerId> peers, Connect(endpoints));
  return receiver_.Start(fetch, peers, clock_->Now());
}

Result<std::vector<PeerId>> Sink::Connect(const std::vector<wire::RankEndpoint>& endpoints) {
  if (peers_.size() + endpoints.size() > kConnectionsMax) Trim();
  std::vector<PeerId> peers;
  for (const wire::RankEndpoint& e : endpoints) {
    ASSIGN_OR_RETURN(const PeerId peer, link_->Connect(e.endpoint));
    peers.push_back(peer);
    peers_.insert(peer);
  }
  return peers;
}

void Sink::Trim() {
  for (auto it = peers_.begin(); it != peers_.end();) {
    if (receiver_.Uses(*it)) {
      ++it;
      continue;
    }
    link_->Drop(*it);
    it = peers_.erase(it);
  }
}

void Sink::Abort(uint64_t fetch, const std::string& reason) { receiver_.Abort(fetch, reason); }

std::vector<FetchEnded> Sink::Poll() {
  std::vector<LinkEvent> events;
  link_->Poll(&events);
  const MonoTime now = clock_->Now();
  for (const LinkEvent& event : events) {
    if (event.what == LinkEvent::What::kLost) {
      peers_.erase(event.peer);
      receiver_.OnPeerLost(event.peer, event.why);
    } else if (event.message.kind == Kind::kData) {
      OnData(event);
    } else {
      receiver_.OnMessage(event.peer, event.message, now);
    }
  }
  if (link_->pulls()) PullSome();
  receiver_.OnTime(clock_->Now());
  SendAll();
  std::vector<FetchEnded> ended = receiver_.TakeEnded();
  for (const FetchEnded& e : ended) {
    arrived_.erase(arrived_.lower_bound({e.fetch, 0}), arrived_.upper_bound({e.fetch, UINT32_MAX}));
  }
  return ended;
}

void Sink::SendAll() {
  for (const Outgoing& out : receiver_.TakeMessages()) link_->Send(out.peer, out.message);
}

void Sink::PullSome() {
  uint64_t budget = kPollBytesMax;
  while (budget > 0) {
    const std::vector<Receiver::Copy> copies = receiver_.Copies();
    if (copies.empty()) return;
    const Receiver::Copy& copy = copies[turn_++ % copies.size()];
    // A failed leg leaves the list, so this ends.
    const uint64_t bytes = PullPiece(copy);
    budget -= std::min(budget, bytes);
    if (bytes > 0) receiver_.OnCopied(copy.fetch, copy.owner_rank, bytes, clock_->Now());
  }
}

uint64_t Sink::PullPiece(const Receiver::Copy& copy) {
  const uint64_t bytes = std::min(kTurnBytes, copy.stream->total_bytes() - copy.received);
  if (MAYBE_FAULT("transfer.copy.cut")) {
    link_->Drop(copy.peer);
    receiver_.OnPeerLost(copy.peer, UnavailableError("cut by a fault point"));
    return 0;
  }
  static_cast<void>(MAYBE_FAULT("transfer.copy"));  // a plan stops or kills the process here
  Status status;
  copy.stream->ForEach(copy.received, bytes, [&](uint64_t from, uint64_t to, uint64_t n) {
    if (status.ok()) status = link_->Pull(copy.peer, from, local_.pool.data + to, n);
  });
  if (status.ok()) return bytes;
  receiver_.OnCopyFailed(copy.fetch, copy.owner_rank, status);
  return 0;
}

void Sink::OnData(const LinkEvent& event) {
  Receiver::Copy copy;
  if (!receiver_.FindCopy(event.peer, event.message, &copy)) return;  // late: its fetch ended
  if (Status s = TakeData(event, copy); !s.ok()) {
    receiver_.OnCopyFailed(copy.fetch, copy.owner_rank, s);
    return;
  }
  receiver_.OnCopied(copy.fetch, copy.owner_rank, event.payload.size(), clock_->Now());
}

Status Sink::TakeData(const LinkEvent& event, const Receiver::Copy& copy) {
  static_cast<void>(MAYBE_FAULT("transfer.take"));  // a plan stops or kills the process here
  const uint64_t total = copy.stream->total_bytes();
  const uint64_t offset = event.message.bytes;
  if (offset >= total || offset % kPushBytes != 0 ||
      event.payload.size() != std::min(kPushBytes, total - offset)) {
    return DataLossError("a piece of " + std::to_string(event.payload.size()) + " bytes at " +
                         std::to_string(offset) + " of " + std::to_string(total));
  }
  const uint32_t crc = Crc32c(event.payload.data(), event.payload.size());
  if (crc != event.message.crc) {
    return DataLossError("CRC32C of the piece at " + std::to_string(offset) + " is " +
                         std::to_string(crc) + ", sent as " + std::to_string(event.message.crc));
  }
  if (!arrived_[{copy.fetch, copy.owner_rank}].insert(offset).second) {
    return DataLossError("the piece at " + std::to_string(offset) + " came twice");
  }
  const std::byte* from = event.payload.data();
  copy.stream->ForEach(offset, event.payload.size(), [&](uint64_t, uint64_t to, uint64_t n) {
    std::memcpy(local_.pool.data + to, from, n);
    from += n;
  });
  return OkStatus();
}

}  // namespace baton::transfer
