// The table: look-ups, indexes, marks, what is remembered, recovery.
#include "src/ledger/ledger.h"

#include <algorithm>

#include "src/base/check.h"

namespace baton::ledger {

using wire::RequestState;

namespace {

// Tombstones per Tick, so that a day's worth of them cannot stall everything else.
constexpr int kForgetPerTick = 256;

bool IsMark(const wire::LedgerRequest& record) {
  return record.cancel_requested && record.source_topic.empty() && record.content_hash == 0 &&
         record.state == RequestState::kReceived;
}

}  // namespace

void Ledger::Index(Entry& entry) {
  Unindex(entry);
  const wire::LedgerRequest& record = entry.record;
  const wire::Request& request = record.request;
  const int64_t deadline_ms = request.deadline_ms > 0 ? request.deadline_ms : INT64_MAX;
  bool waits = false;
  entry.counted = record.state;
  ++counts_[static_cast<size_t>(record.state)];
  entry.wake_ms = deadline_ms;
  switch (record.state) {
    case RequestState::kReceived:
    case RequestState::kHandoff:
      waits = true;
      break;
    case RequestState::kParked:
      waits = record.parked_until_ms <= now_ms_;
      if (!waits) entry.wake_ms = std::min(deadline_ms, record.parked_until_ms);
      break;
    case RequestState::kContext:
    case RequestState::kGeneration:
    case RequestState::kFull:
      if (deadline_ms != INT64_MAX) entry.wake_ms = deadline_ms + limits_.deadline_slack_ms;
      if (record.cancel_requested) {
        entry.wake_ms = std::min(entry.wake_ms, record.parked_until_ms);
      }
      break;
    case RequestState::kDone:
      CHECK(false, "finished requests have no entry");
  }
  if (entry.wake_ms != INT64_MAX) wakes_.insert({entry.wake_ms, request.id});
  if (!waits) return;
  entry.ready =
      ReadyKey{record.received_ms + limits_.class_delay_ms[static_cast<size_t>(request.priority)],
               entry.sequence};
  const bool generation =
      record.state == RequestState::kHandoff || request.kind == wire::RequestKind::kGenerationOnly;
  entry.ready_need = generation ? Need::kGeneration : Need::kFirstPhase;
  ready_[static_cast<int>(entry.ready_need)].emplace(*entry.ready, &entry);
}

void Ledger::Unindex(Entry& entry) {
  if (entry.wake_ms != INT64_MAX) wakes_.erase({entry.wake_ms, entry.record.request.id});
  entry.wake_ms = INT64_MAX;
  if (entry.counted) --counts_[static_cast<size_t>(*entry.counted)];
  entry.counted.reset();
  if (entry.ready) ready_[static_cast<int>(entry.ready_need)].erase(*entry.ready);
  entry.ready.reset();
}

Entry* Ledger::FindOpen(const Identity& id) {
  const auto found = entries_.find(id);
  if (found == entries_.end()) {
    Count(done_.count(id) != 0 ? Drop::kAlreadyDone : Drop::kUnknownRequest);
    return nullptr;
  }
  if (found->second.pending) {
    Count(Drop::kTerminalPending);
    return nullptr;
  }
  return &found->second;
}

std::vector<Identity> Ledger::OpenMatching(const std::function<bool(const Entry&)>& match) const {
  std::vector<Identity> ids;
  for (const auto& [id, entry] : entries_) {
    if (!entry.pending && match(entry)) ids.push_back(id);
  }
  std::sort(ids.begin(), ids.end());  // a hash table's order must not show in the effects
  return ids;
}

void Ledger::KeepMark(const Identity& id) {
  if (marks_.count(id) != 0) return;
  if (marks_.size() >= limits_.marks_max) {
    ++stats_.marks_evicted;
    const Identity oldest = mark_order_.begin()->second;
    mark_order_.erase(mark_order_.begin());
    marks_.erase(oldest);
    Emit(oldest, WriteTombstone{oldest.Key()});
  }
  ++stats_.cancels_kept;
  wire::LedgerRequest record;
  record.request.id = id;
  record.controller_epoch = epoch_;
  record.cancel_requested = true;
  record.received_ms = now_ms_;
  record.parked_until_ms = now_ms_ + limits_.cancel_kept_ms;
  marks_[id] = {record.parked_until_ms, 0};
  mark_order_.insert({record.parked_until_ms, id});
  Emit(id, WriteRecord{std::move(record)});
}

bool Ledger::GroupCancelled(const wire::Request& request, int64_t timestamp_ms) const {
  const auto covers = [&](const std::string& job) {
    const auto mark = group_marks_.find({request.id.tenant, job});
    return mark != group_marks_.end() && timestamp_ms <= mark->second.timestamp_ms;
  };
  return covers("") || (!request.job.empty() && covers(request.job));
}

// kDone takes the place of a kept cancel in the ledger.
void Ledger::DropMark(const Identity& id) {
  const auto mark = marks_.find(id);
  if (mark == marks_.end()) return;
  mark_order_.erase({mark->second.forget_ms, id});
  marks_.erase(mark);
}

void Ledger::Remember(const Identity& id, Done done) {
  done_order_.emplace_back(done.forget_ms, id);
  done_[id] = std::move(done);
}

void Ledger::ForgetOld() {
  for (int i = 0; i < kForgetPerTick && !done_order_.empty(); ++i) {
    const auto& [forget_ms, id] = done_order_.front();
    if (forget_ms > now_ms_) break;
    const auto found = done_.find(id);
    if (found != done_.end() && found->second.forget_ms == forget_ms) {
      const Source& source = found->second.source;
      const auto stored = stored_.find({source.topic, source.partition});
      // Its intake record could be read again: it must still be known then.
      if (!source.topic.empty() && (stored == stored_.end() || source.offset >= stored->second)) {
        break;
      }
      Emit(id, WriteTombstone{id.Key()});
      done_.erase(found);
    }
    done_order_.pop_front();
  }
  for (int i = 0; i < kForgetPerTick && !mark_order_.empty(); ++i) {
    const auto [forget_ms, id] = *mark_order_.begin();
    if (forget_ms > now_ms_) break;
    Emit(id, WriteTombstone{id.Key()});
    marks_.erase(id);
    mark_order_.erase(mark_order_.begin());
  }
  for (auto it = group_marks_.begin(); it != group_marks_.end();) {
    if (it->second.forget_ms > now_ms_) {
      ++it;
      continue;
    }
    const auto& [tenant, job] = it->first;
    Emit({tenant, ""}, WriteTombstone{"mark/" + Identity{tenant, job}.Key()});
    it = group_marks_.erase(it);
  }
}

void Ledger::PositionStored(const std::string& topic, int32_t partition, int64_t offset) {
  stored_[{topic, partition}] = offset;
}

void Ledger::VisitReady(Need need, const std::function<bool(const Entry&)>& visit) const {
  for (const auto& [key, entry] : ready_[static_cast<int>(need)]) {
    if (!visit(*entry)) return;
  }
}

size_t Ledger::FillPercent() const {
  const size_t flight = entries_.size() * 100 / std::max<size_t>(1, limits_.in_flight_max);
  const bool full = done_.size() >= limits_.done_max;
  return full ? std::max<size_t>(flight, 100) : flight;
}

std::vector<Target> Ledger::InstancesInUse() const {
  std::map<std::pair<std::string, uint64_t>, Target> found;
  const auto add = [&found](const std::string& name, InstanceEpoch epoch, LeaseNumber lease) {
    if (!name.empty() && epoch.value != 0) found[{name, epoch.value}] = {name, epoch, lease};
  };
  for (const auto& [id, entry] : entries_) {
    const wire::LedgerRequest& r = entry.record;
    add(r.context_instance, r.context_instance_epoch, r.context_lease);
    add(r.generation_instance, r.generation_instance_epoch, r.generation_lease);
  }
  std::vector<Target> targets;
  for (auto& [key, target] : found) targets.push_back(std::move(target));
  return targets;
}

const Entry* Ledger::Find(const Identity& id) const {
  const auto found = entries_.find(id);
  return found == entries_.end() ? nullptr : &found->second;
}

const Done* Ledger::FindDone(const Identity& id) const {
  const auto found = done_.find(id);
  return found == done_.end() ? nullptr : &found->second;
}

Ledger::Snapshot Ledger::TakeSnapshot() const {
  Snapshot snapshot;
  for (const auto& [id, entry] : entries_) {
    if (!entry.settle_at_done) snapshot.in_flight[id] = entry.record;
  }
  for (const auto& [id, done] : done_) snapshot.done[id] = done;
  for (const auto& [id, mark] : marks_) snapshot.marks[id.Key()] = mark.forget_ms;
  for (const auto& [key, mark] : group_marks_) {
    snapshot.marks["mark/" + Identity{key.first, key.second}.Key()] = mark.forget_ms;
  }
  return snapshot;
}

// ------------------------------------------------------------------------------- recovery

void Ledger::Restore(const wire::LedgerRequest& record) {
  RestoreTombstone(KeyOf(record));
  const Identity& id = record.request.id;
  if (id.request_id.empty()) {
    group_marks_[{id.tenant, record.request.job}] = {record.parked_until_ms, record.received_ms};
    return;
  }
  if (IsMark(record)) {
    marks_[id] = {record.parked_until_ms, 0};
    mark_order_.insert({record.parked_until_ms, id});
    return;
  }
  if (record.state == RequestState::kDone) {
    Remember(id, {record.content_hash,
                  record.result_partition,
                  record.result_offset,
                  record.parked_until_ms,
                  {record.source_topic, record.source_partition, record.source_offset},
                  record.outcome,
                  record.attempt});
    return;
  }
  Entry& entry = entries_[id];
  entry.record = record;
  entry.sequence = next_sequence_++;
  Index(entry);
}

void Ledger::RestoreTombstone(const std::string& key) {
  if (key.starts_with("mark/")) {
    Identity group;
    if (Identity::FromKey(key.substr(5), &group)) {
      group_marks_.erase({group.tenant, group.request_id});
    }
    return;
  }
  Identity id;
  if (!Identity::FromKey(key, &id)) return;
  if (const auto found = entries_.find(id); found != entries_.end()) {
    Unindex(found->second);
    entries_.erase(found);
  }
  done_.erase(id);
  DropMark(id);
}

Effects Ledger::TerminalSeen(const wire::ResultRecord& record, int32_t partition, int64_t offset,
                             int64_t now_ms) {
  now_ms_ = now_ms;
  effects_.clear();
  if (record.kind != wire::ResultKind::kTerminal) return {};
  if (done_.count(record.id) != 0) {  // the first one wins
    Emit(record.id, SettleResult{partition, offset});
    return std::move(effects_);
  }
  const auto [found, fresh] = entries_.try_emplace(record.id);
  Entry& entry = found->second;
  if (fresh) {
    // It ended before it was ever recorded; its intake record is read again and settled then.
    entry.record.request.id = record.id;
    entry.record.attempt = record.attempt;
    entry.record.received_ms = now_ms;
  }
  Finish(entry, {record.outcome, record.timings, record.output.cached_tokens, false, ""}, partition,
         offset);
  return std::move(effects_);
}

Effects Ledger::Resume(ControllerEpoch epoch, int64_t now_ms) {
  now_ms_ = now_ms;
  effects_.clear();
  epoch_ = epoch;
  std::sort(done_order_.begin(), done_order_.end());
  for (const Identity& id : OpenMatching([](const Entry&) { return true; })) {
    Entry& entry = entries_.at(id);
    const wire::LedgerRequest& record = entry.record;
    const bool group_cancelled =
        std::any_of(group_marks_.begin(), group_marks_.end(), [&](const auto& item) {
          const auto& [key, mark] = item;
          return key.first == id.tenant &&
                 (key.second.empty() || key.second == record.request.job) &&
                 record.received_ms <= mark.forget_ms - limits_.cancel_kept_ms;
        });
    if (group_cancelled && !record.cancel_requested) StartCancel(entry);
    if (entry.pending) continue;
    const bool running = record.state == RequestState::kContext ||
                         record.state == RequestState::kGeneration ||
                         record.state == RequestState::kFull;
    if (!running) {
      Index(entry);
      continue;
    }
    if (record.cancel_requested) entry.record.parked_until_ms = now_ms_ + limits_.cancel_wait_ms;
    Unindex(entry);
    Write(entry);
    SendRun(entry);
    if (record.cancel_requested) CancelSides(entry);
  }
  return std::move(effects_);
}

}  // namespace baton::ledger
