#include "src/engine/votes.h"

#include <fmt/format.h>

#include <algorithm>

#include "src/base/check.h"

namespace baton::engine {

VoteTable::VoteTable(uint32_t ranks, Nanos deadline) : ranks_(ranks), deadline_(deadline) {
  CHECK(ranks > 0 && deadline > Nanos::zero());
}

void VoteTable::Open(AdmissionId admission, VoteKind kind, std::string request) {
  Entry entry{.request = std::move(request), .voted = std::vector<bool>(ranks_), .missing = ranks_};
  CHECK(entries_.emplace(Key{admission, kind}, std::move(entry)).second,
        "votes on this admission are collected already");
}

void VoteTable::Arm(AdmissionId admission, VoteKind kind, MonoTime now) {
  const auto it = entries_.find({admission, kind});
  if (it != entries_.end() && it->second.armed == MonoTime::Max()) it->second.armed = now;
}

void VoteTable::Cast(const Vote& vote) {
  const auto it = entries_.find({vote.admission, vote.kind});
  if (it == entries_.end() || vote.rank.value >= ranks_ || it->second.voted[vote.rank.value]) {
    ++dropped_;
    return;
  }
  Entry& entry = it->second;
  entry.voted[vote.rank.value] = true;
  --entry.missing;
  if (vote.status.ok() && entry.missing > 0) return;
  commits_.push_back({vote.admission, vote.kind,
                      vote.status.WithContext(fmt::format("rank {}", vote.rank.value))});
  entries_.erase(it);
}

void VoteTable::Close(AdmissionId admission, VoteKind kind) { entries_.erase({admission, kind}); }

bool VoteTable::open(AdmissionId admission, VoteKind kind) const {
  return entries_.contains({admission, kind});
}

MonoTime VoteTable::Due(const Entry& entry) const {
  if (entry.armed == MonoTime::Max() || entry.reported >= 2) return MonoTime::Max();
  return entry.armed + deadline_ * (entry.reported + 1);
}

std::vector<LateVote> VoteTable::TakeLate(MonoTime now) {
  std::vector<LateVote> late;
  for (auto& [key, entry] : entries_) {
    if (now < Due(entry)) continue;
    const Nanos age = now - entry.armed;
    entry.reported = age >= 2 * deadline_ ? 2 : 1;
    for (uint32_t rank = 0; rank < ranks_; ++rank) {
      if (entry.voted[rank]) continue;
      late.push_back({Rank(rank), key.first, key.second, entry.request, age, entry.reported == 2});
    }
  }
  return late;
}

}  // namespace baton::engine
