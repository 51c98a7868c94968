// One handler per event: who is meant, is it still of interest, which transition.
#include <algorithm>
#include <set>

#include "src/base/check.h"
#include "src/ledger/ledger.h"

namespace baton::ledger {

namespace {

using wire::RequestState;

bool IsAssigned(RequestState state) {
  return state == RequestState::kContext || state == RequestState::kGeneration ||
         state == RequestState::kFull;
}

}  // namespace

Effects Ledger::Apply(const Event& event, int64_t now_ms) {
  now_ms_ = now_ms;
  effects_.clear();
  std::visit([this](const auto& e) { On(e); }, event);
  return std::move(effects_);
}

void Ledger::On(const Submitted& event) {
  const Identity& id = event.request.id;
  CHECK(event.content_hash != 0, "0 means unknown");
  if (const auto done = done_.find(id); done != done_.end()) {
    return OnRepeatOfDone(event, done->second);
  }
  if (const auto known = entries_.find(id); known != entries_.end()) {
    return OnRepeat(event, known->second);
  }
  ++stats_.received;
  Entry& entry = entries_[id];
  entry.sequence = next_sequence_++;
  wire::LedgerRequest& record = entry.record;
  record.request = event.request;
  if (!record.request.sampling.seed) record.request.sampling.seed = event.fresh_seed;
  record.attempt = Attempt(1);
  record.controller_epoch = epoch_;
  record.content_hash = event.content_hash;
  record.source_topic = event.source.topic;
  record.source_partition = event.source.partition;
  record.source_offset = event.source.offset;
  record.received_ms = now_ms_;

  // These end before they are ever recorded; kDone is their first record.
  entry.settle_at_done = true;
  const bool cancelled =
      GroupCancelled(record.request, event.timestamp_ms) || marks_.count(id) != 0;
  if (cancelled) return End(entry, wire::Outcome::kCancelled, {}, std::nullopt);
  if (event.refusal) {
    ++stats_.refused;
    return EndWithError(entry, wire::Outcome::kError, *event.refusal);
  }
  const int64_t deadline_ms = record.request.deadline_ms;
  if (deadline_ms > 0 && deadline_ms <= now_ms_) {
    return End(entry, wire::Outcome::kExpired, {}, std::nullopt);
  }

  entry.settle_at_done = false;
  Write(entry);
  Emit(id, Settle{event.source});
}

void Ledger::OnRepeat(const Submitted& event, Entry& entry) {
  const wire::Request& first = entry.record.request;
  const Source source{entry.record.source_topic, entry.record.source_partition,
                      entry.record.source_offset};
  if (source == event.source) {  // the same record, read again after a restart
    if (!entry.settle_at_done) Emit(first.id, Settle{event.source});
    return;
  }
  if (event.content_hash != entry.record.content_hash) return Conflict(event);
  ++stats_.repeats_in_flight;
  // The terminal record answers a plain repeat too; who waits elsewhere is owed a copy.
  const Waiter waiter{event.request.correlation_id, event.request.reply_topic};
  const bool same =
      waiter == Waiter{first.correlation_id, first.reply_topic} ||
      std::find(entry.waiters.begin(), entry.waiters.end(), waiter) != entry.waiters.end();
  if (!same && entry.waiters.size() < limits_.waiters_max) {
    entry.waiters.push_back(waiter);
  } else if (!same) {
    ++stats_.waiters_refused;
  }
  Emit(first.id, Settle{event.source});
}

void Ledger::OnRepeatOfDone(const Submitted& event, Done& done) {
  const Identity& id = event.request.id;
  if (done.content_hash == 0) {
    // Found on the results topic only: this is the record that led to it, read again.
    done.content_hash = event.content_hash;
    done.source = event.source;
    wire::LedgerRequest record;
    record.request.id = id;
    record.state = RequestState::kDone;
    record.attempt = done.attempt;
    record.controller_epoch = epoch_;
    record.content_hash = done.content_hash;
    record.parked_until_ms = done.forget_ms;
    record.source_topic = done.source.topic;
    record.source_partition = done.source.partition;
    record.source_offset = done.source.offset;
    record.outcome = done.outcome;
    record.result_partition = done.partition;
    record.result_offset = done.offset;
    Emit(id, WriteRecord{std::move(record)});
  }
  if (done.source == event.source) return Emit(id, Settle{event.source});
  if (event.content_hash != done.content_hash) return Conflict(event);
  ++stats_.repeats_done;
  Emit(id, PublishCopy{done.partition, done.offset, event.request.correlation_id,
                       event.request.reply_topic});
  Emit(id, Settle{event.source});
}

void Ledger::Conflict(const Submitted& event) {
  ++stats_.conflicts;
  wire::ResultRecord record;
  record.id = event.request.id;
  record.kind = wire::ResultKind::kConflict;
  record.outcome = wire::Outcome::kError;
  record.controller_epoch = epoch_;
  record.output.finish = wire::FinishReason::kError;
  record.error = wire::ErrorInfo{
      StatusCode::kAlreadyExists,
      "this identity was submitted before with other content; nothing was run", true};
  record.job = event.request.job;
  record.correlation_id = event.request.correlation_id;
  Emit(record.id, PublishConflict{record, event.request.reply_topic});
  Emit(record.id, Settle{event.source});
}

void Ledger::On(const Assigned& event) {
  const auto found = entries_.find(event.id);
  if (found == entries_.end() || found->second.pending) return Count(Drop::kAssignment);
  Entry& entry = found->second;
  wire::LedgerRequest& record = entry.record;
  const bool generation_only = record.request.kind == wire::RequestKind::kGenerationOnly;
  const bool fresh = record.state == RequestState::kReceived ||
                     (record.state == RequestState::kParked && record.parked_until_ms <= now_ms_);
  const bool fits = event.phase == wire::Phase::kGeneration
                        ? record.state == RequestState::kHandoff || (fresh && generation_only)
                        : fresh && !generation_only;
  if (!fits || event.attempt != record.attempt) return Count(Drop::kAssignment);

  Unindex(entry);
  ++stats_.assignments;
  record.parked_until_ms = 0;
  if (event.phase != wire::Phase::kGeneration) {
    record.context_instance = event.target.instance;
    record.context_instance_epoch = event.target.epoch;
    record.context_lease = event.target.lease;
    record.state = RequestState::kContext;
  }
  if (event.phase != wire::Phase::kContext) {
    record.generation_instance = event.target.instance;
    record.generation_instance_epoch = event.target.epoch;
    record.generation_lease = event.target.lease;
    record.state =
        event.phase == wire::Phase::kFull ? RequestState::kFull : RequestState::kGeneration;
  }
  Write(entry);
  SendRun(entry);
}

void Ledger::On(const FromInstance& from) {
  const wire::Event& event = from.event;
  Entry* entry = FindOpen(event.from.id);
  if (entry == nullptr) return;
  if (const std::optional<Drop> stale = WhyStale(*entry, event)) return Count(*stale);
  if (event.kind != wire::EventKind::kAccepted) entry->timings = event.timings;
  switch (event.kind) {
    case wire::EventKind::kAccepted:
      return;
    case wire::EventKind::kContextDone:
      return OnContextDone(*entry, event);
    case wire::EventKind::kGenerationDone:
      return End(*entry, wire::Outcome::kOk, event.output, std::nullopt);
    case wire::EventKind::kFailed:
      return OnFailed(*entry, event.error.value_or(wire::ErrorInfo{
                                  StatusCode::kInternal, "the instance gave no reason", false}));
    case wire::EventKind::kCancelled:
    case wire::EventKind::kExpired:
      return OnStopped(*entry, event);
  }
}

std::optional<Drop> Ledger::WhyStale(const Entry& entry, const wire::Event& event) const {
  const wire::LedgerRequest& record = entry.record;
  const wire::Address& from = event.from;
  if (from.attempt != record.attempt) return Drop::kAttempt;
  if (from.controller_epoch != record.controller_epoch) return Drop::kControllerEpoch;
  bool fits = false;
  switch (event.phase) {
    case wire::Phase::kContext:
      // A context side may still say that it ended the lease of a hand-off.
      fits =
          record.state == RequestState::kContext ||
          (record.state == RequestState::kHandoff &&
           (event.kind == wire::EventKind::kFailed || event.kind == wire::EventKind::kCancelled ||
            event.kind == wire::EventKind::kExpired));
      break;
    case wire::Phase::kGeneration:
      fits = record.state == RequestState::kGeneration;
      break;
    case wire::Phase::kFull:
      fits = record.state == RequestState::kFull;
      break;
  }
  // An answer that ends with its first token comes as "generation done" of the context phase.
  if (event.kind == wire::EventKind::kContextDone && event.phase != wire::Phase::kContext) {
    fits = false;
  }
  if (!fits) return Drop::kPhase;
  const bool context = event.phase == wire::Phase::kContext;
  if (from.instance != (context ? record.context_instance : record.generation_instance)) {
    return Drop::kInstance;
  }
  if (from.instance_epoch !=
      (context ? record.context_instance_epoch : record.generation_instance_epoch)) {
    return Drop::kInstanceEpoch;
  }
  if (from.lease != (context ? record.context_lease : record.generation_lease)) {
    return Drop::kLease;
  }
  return std::nullopt;
}

void Ledger::On(const InstanceGone& gone) {
  const std::set<Identity> in_step(gone.in_step.begin(), gone.in_step.end());
  const auto is = [&gone](const std::string& name, InstanceEpoch epoch) {
    return name == gone.instance && epoch == gone.epoch;
  };
  const std::vector<Identity> hit = OpenMatching([&](const Entry& entry) {
    const wire::LedgerRequest& r = entry.record;
    const bool context = is(r.context_instance, r.context_instance_epoch);
    const bool generation = is(r.generation_instance, r.generation_instance_epoch);
    switch (r.state) {
      case RequestState::kContext:
      case RequestState::kHandoff:
        return context;
      case RequestState::kGeneration:  // may hold everything already, or report a failure itself
      case RequestState::kFull:
        return generation;
      default:
        return false;
    }
  });
  for (const Identity& id : hit) {
    Entry& entry = entries_.at(id);
    // A hand-off waits in no step.
    const bool counts =
        gone.crashed && entry.record.state != RequestState::kHandoff && in_step.count(id) != 0;
    OnGoneWhileRunning(entry, counts);
  }
}

void Ledger::On(const CancelAsked& event) {
  ++stats_.cancels;
  if (done_.count(event.id) != 0) {
    Count(Drop::kAlreadyDone);
  } else if (const auto found = entries_.find(event.id); found == entries_.end()) {
    KeepMark(event.id);
  } else if (found->second.pending) {
    Count(Drop::kTerminalPending);
  } else {
    StartCancel(found->second);
  }
  Emit(event.id, Settle{event.source});
}

void Ledger::On(const GroupCancelAsked& event) {
  ++stats_.cancels;
  const std::vector<Identity> hit = OpenMatching([&event](const Entry& entry) {
    const wire::Request& request = entry.record.request;
    return request.id.tenant == event.tenant && (event.job.empty() || request.job == event.job);
  });
  // The mark is recorded first: a restart finds in it whom it has not reached yet.
  wire::LedgerRequest record;
  record.request.id.tenant = event.tenant;
  record.request.job = event.job;
  record.controller_epoch = epoch_;
  record.cancel_requested = true;
  record.received_ms = event.timestamp_ms;
  record.parked_until_ms = now_ms_ + limits_.cancel_kept_ms;
  if (group_marks_.size() >= limits_.marks_max) {
    ++stats_.marks_evicted;
    const auto oldest = std::min_element(
        group_marks_.begin(), group_marks_.end(),
        [](const auto& a, const auto& b) { return a.second.forget_ms < b.second.forget_ms; });
    Emit({oldest->first.first, ""},
         WriteTombstone{"mark/" + Identity{oldest->first.first, oldest->first.second}.Key()});
    group_marks_.erase(oldest);
  }
  group_marks_[{event.tenant, event.job}] = {record.parked_until_ms, event.timestamp_ms};
  Emit(record.request.id, WriteRecord{record});
  Emit(record.request.id, Settle{event.source});
  for (const Identity& id : hit) StartCancel(entries_.at(id));
}

void Ledger::On(const Tick&) {
  while (!wakes_.empty() && wakes_.begin()->first <= now_ms_) {
    const auto found = entries_.find(wakes_.begin()->second);
    CHECK(found != entries_.end(), "a wake without its request");
    EndByClock(found->second);
  }
  ForgetOld();
}

void Ledger::On(const TerminalPublished& event) {
  const auto found = entries_.find(event.id);
  if (found == entries_.end() || !found->second.pending) return Count(Drop::kAlreadyDone);
  Finish(found->second, *found->second.pending, event.partition, event.offset);
}

void Ledger::On(const TerminalRefused& event) {
  const auto found = entries_.find(event.id);
  if (found == entries_.end() || !found->second.pending) return Count(Drop::kAlreadyDone);
  Entry& entry = found->second;
  Pending& pending = *entry.pending;
  Unindex(entry);
  if (pending.replaced) {  // even the small record: rights, not size. Again in a second.
    entry.wake_ms = now_ms_ + 1'000;
    wakes_.insert({entry.wake_ms, event.id});
    return;
  }
  ++stats_.results_replaced;
  pending.replaced = true;
  pending.why_replaced = event.why.ToString().substr(0, 512);
  if (pending.outcome == wire::Outcome::kOk) pending.outcome = wire::Outcome::kError;
  PublishSmall(entry);
}

void Ledger::On(const RecordRefused& event) {
  Entry* entry = FindOpen(event.id);
  if (entry == nullptr) return;
  CancelSides(*entry);
  EndWithError(
      *entry, wire::Outcome::kError,
      {StatusCode::kResourceExhausted,
       "the request's ledger record cannot be written: " + event.why.ToString().substr(0, 512),
       true});
}

void Ledger::On(const AssignmentRefused& event) {
  Entry* entry = FindOpen(event.to.id);
  if (entry == nullptr) return;
  wire::Event as_event;
  as_event.from = event.to;
  as_event.kind = wire::EventKind::kFailed;
  switch (entry->record.state) {
    case RequestState::kContext:
      as_event.phase = wire::Phase::kContext;
      break;
    case RequestState::kGeneration:
      as_event.phase = wire::Phase::kGeneration;
      break;
    default:
      as_event.phase = wire::Phase::kFull;
  }
  if (!IsAssigned(entry->record.state)) return Count(Drop::kPhase);
  if (const std::optional<Drop> stale = WhyStale(*entry, as_event)) return Count(*stale);
  OnFailed(*entry, {event.why.code(), "assignment not written: " + event.why.message(), false});
}

}  // namespace baton::ledger
