#include "src/transfer/source.h"

#include <algorithm>
#include <utility>

#include "src/base/fault.h"
#include "src/transfer/crc32c.h"
#include "src/transfer/layout.h"

namespace baton::transfer {

Source::Source(const LocalRank& local, std::unique_ptr<OwnerLink> link, const Clock* clock)
    : local_(local), link_(std::move(link)), clock_(clock), owner_(local) {}

Status Source::Offer(const OfferSpec& offer) { return owner_.Offer(offer, clock_->Now()); }

void Source::Withdraw(uint64_t lease, const std::string& reason) { owner_.Withdraw(lease, reason); }

std::vector<LeaseEnded> Source::Poll() {
  std::vector<LinkEvent> events;
  link_->Poll(&events);
  const MonoTime now = clock_->Now();
  for (const LinkEvent& event : events) {
    if (event.what == LinkEvent::What::kLost) {
      owner_.OnPeerLost(event.peer, event.why.message());
    } else {
      owner_.OnMessage(event.peer, event.message, now);
    }
  }
  owner_.OnTime(now);
  SendAll();
  if (link_->pushes()) PushSome();
  return owner_.TakeEnded();
}

bool Source::CutByFault(PeerId peer) {
  if (!MAYBE_FAULT("transfer.send.cut")) return false;
  link_->Drop(peer);
  owner_.OnPeerLost(peer, "cut by a fault point");
  return true;
}

void Source::SendAll() {
  for (const Outgoing& out : owner_.TakeMessages()) {
    if (!CutByFault(out.peer)) link_->Send(out.peer, out.message);
  }
}

Source::PushState Source::MakeState(const Owner::Push& push) const {
  std::vector<uint32_t> blocks;
  for (const BlockId block : push.offer->blocks) blocks.push_back(block.value);
  Leg mine{local_.rank, {}};
  for (Leg& leg : PlanLegs(local_.layout, *push.layout, push.receiver_rank)) {
    if (leg.owner_rank == local_.rank) mine = std::move(leg);
  }
  const auto count = static_cast<uint32_t>(blocks.size());
  return {LegStream(local_.layout, *push.layout, push.receiver_rank, mine, count, push.skip_blocks,
                    std::move(blocks), {}),
          0};
}

void Source::PushSome() {
  const std::vector<Owner::Push> pushes = owner_.Pushes();
  std::map<PushKey, PushState> kept;
  for (const Owner::Push& push : pushes) {
    const PushKey key{push.lease, push.receiver_rank, push.fetch};
    const auto found = pushing_.find(key);
    kept.emplace(key, found != pushing_.end() ? std::move(found->second) : MakeState(push));
  }
  pushing_ = std::move(kept);
  uint64_t budget = kPollBytesMax;
  // In turns, so that many fetches progress at once.
  for (size_t idle = 0; budget > 0 && idle < pushes.size(); ++turn_) {
    const Owner::Push& push = pushes[turn_ % pushes.size()];
    const uint64_t sent =
        PushPiece(push, &pushing_.at({push.lease, push.receiver_rank, push.fetch}));
    idle = sent == 0 ? idle + 1 : 0;
    budget -= std::min(budget, sent);
  }
}

uint64_t Source::PushPiece(const Owner::Push& push, PushState* state) {
  const uint64_t total = state->stream.total_bytes();
  const uint64_t received = std::min(push.received, state->sent);
  if (state->sent >= total || state->sent - received >= kPushWindowBytes) return 0;
  const uint64_t bytes = std::min(kPushBytes, total - state->sent);
  // A copy, so that the pool is never touched after a lease ended, however late the wire is.
  std::vector<std::byte> payload;
  payload.reserve(bytes);
  state->stream.ForEach(state->sent, bytes, [&](uint64_t from, uint64_t, uint64_t n) {
    payload.insert(payload.end(), local_.pool.data + from, local_.pool.data + from + n);
  });
  Message message;
  message.kind = Kind::kData;
  message.lease = push.lease;
  message.fetch = push.fetch;
  message.owner_epoch = local_.instance_epoch.value;
  message.owner_rank = local_.rank;
  message.receiver_rank = push.receiver_rank;
  message.bytes = state->sent;
  message.crc = Crc32c(payload.data(), payload.size());
  if (MAYBE_FAULT("transfer.wire.flip")) payload[payload.size() / 2] ^= std::byte{0x10};
  if (CutByFault(push.peer)) {
    state->sent = total;
    return bytes;
  }
  if (!link_->Push(push.peer, message, &payload)) return 0;
  state->sent += bytes;
  return bytes;
}

}  // namespace baton::transfer
