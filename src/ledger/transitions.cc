// What happens to one request. Nothing of the durable record changes unless Write() follows, so
// that the last record written always equals the live state.
#include <algorithm>
#include <utility>

#include "src/base/check.h"
#include "src/ledger/ledger.h"

namespace baton::ledger {

namespace {

using wire::RequestState;

wire::Timings Sum(const wire::Timings& a, const wire::Timings& b) {
  return {a.queue_ms + b.queue_ms, a.context_ms + b.context_ms, a.transfer_ms + b.transfer_ms,
          a.generation_ms + b.generation_ms};
}

wire::FinishReason FinishOf(wire::Outcome outcome, wire::FinishReason reported) {
  switch (outcome) {
    case wire::Outcome::kOk:
      return reported;
    case wire::Outcome::kCancelled:
      return wire::FinishReason::kCancelled;
    case wire::Outcome::kExpired:
      return wire::FinishReason::kExpired;
    case wire::Outcome::kError:
    case wire::Outcome::kDead:
      break;
  }
  return wire::FinishReason::kError;
}

}  // namespace

void Ledger::OnContextDone(Entry& entry, const wire::Event& event) {
  const wire::LedgerRequest& old = entry.record;
  const bool finished = event.output.finish != wire::FinishReason::kNone;
  const bool context_only = old.request.kind == wire::RequestKind::kContextOnly;
  if (old.cancel_requested) {
    CancelSides(entry);
    return End(entry, wire::Outcome::kCancelled, event.output, std::nullopt);
  }
  if (finished || context_only) {
    wire::Output output = event.output;
    if (output.tokens.empty()) output.tokens = event.first_tokens;
    if (output.logprobs.empty()) output.logprobs = event.first_logprobs;
    if (output.prompt_tokens == 0) output.prompt_tokens = event.prompt_tokens.size();
    if (!finished) output.finish = wire::FinishReason::kLength;
    // It ended with its first token: nobody will fetch.
    if (finished && event.handoff) {
      SendTo(entry, true, wire::AssignmentKind::kReleaseHandoff);
    }
    return End(entry, wire::Outcome::kOk, std::move(output), std::nullopt);
  }
  const bool usable = event.handoff && event.handoff->instance == old.context_instance &&
                      event.handoff->instance_epoch == old.context_instance_epoch &&
                      event.handoff->attempt == old.attempt && !event.first_tokens.empty();
  if (!usable) {
    return OnFailed(entry,
                    {StatusCode::kInternal,
                     "context ended without a first token and a hand-off of its own", false});
  }
  Unindex(entry);
  wire::LedgerRequest& record = entry.record;
  record.state = RequestState::kHandoff;
  record.handoff = event.handoff;
  record.prompt_tokens = event.prompt_tokens;
  record.first_tokens = event.first_tokens;
  record.first_logprobs = event.first_logprobs;
  record.timings = event.timings;
  record.cached_tokens = event.output.cached_tokens;
  entry.timings = {};
  Write(entry);
}

void Ledger::OnFailed(Entry& entry, const wire::ErrorInfo& error) {
  const wire::LedgerRequest& record = entry.record;
  ++stats_.failures;
  // The pair of a failed leg fails with it.
  if (record.state == RequestState::kGeneration) {
    SendTo(entry, true, wire::AssignmentKind::kReleaseHandoff);
  }
  if (record.cancel_requested) {
    return End(entry, wire::Outcome::kCancelled, {}, std::nullopt);
  }
  if (record.state == RequestState::kHandoff) {  // the lease ended before anybody asked
    return Retry(entry, now_ms_ + limits_.backoff_ms);
  }
  // A descriptor is never used twice, so a generation-only request has one attempt.
  const bool once = record.request.kind == wire::RequestKind::kGenerationOnly;
  const uint32_t failures = record.failures + 1;
  if (error.client_fault || once || failures >= limits_.failures_max) {
    return EndWithError(entry, wire::Outcome::kError, error);
  }
  const int64_t backoff_ms =
      std::min(limits_.backoff_max_ms, limits_.backoff_ms << std::min(failures - 1, 20u));
  entry.record.failures = failures;
  Retry(entry, now_ms_ + backoff_ms);
}

// The instance stopped the work: because we asked, because of the deadline, or by itself.
void Ledger::OnStopped(Entry& entry, const wire::Event& event) {
  const wire::LedgerRequest& record = entry.record;
  if (record.cancel_requested) {
    return End(entry, wire::Outcome::kCancelled, event.output, std::nullopt);
  }
  if (event.kind == wire::EventKind::kExpired) {
    if (record.request.deadline_ms <= 0) {
      return OnFailed(entry, {StatusCode::kInternal,
                              "the instance expired a request that has no deadline", false});
    }
    if (record.state == RequestState::kGeneration) {
      SendTo(entry, true, wire::AssignmentKind::kReleaseHandoff);
    }
    return End(entry, wire::Outcome::kExpired, event.output, std::nullopt);
  }
  // Unasked: it drains. Not the request's fault, but no busy loop either.
  if (record.request.kind == wire::RequestKind::kGenerationOnly) {
    return EndWithError(entry, wire::Outcome::kError,
                        {StatusCode::kUnavailable,
                         "instance " + record.generation_instance +
                             " stopped the request; its hand-off cannot be fetched twice",
                         false});
  }
  if (record.state == RequestState::kGeneration) {
    SendTo(entry, true, wire::AssignmentKind::kReleaseHandoff);
  }
  Retry(entry, now_ms_ + limits_.backoff_ms);
}

void Ledger::OnGoneWhileRunning(Entry& entry, bool counts) {
  const wire::LedgerRequest& record = entry.record;
  const std::string instance =
      record.state == RequestState::kGeneration || record.state == RequestState::kFull
          ? record.generation_instance
          : record.context_instance;
  if (counts) ++stats_.deaths;
  if (record.state == RequestState::kGeneration) {
    SendTo(entry, true, wire::AssignmentKind::kReleaseHandoff);
  }
  if (record.cancel_requested) {
    return End(entry, wire::Outcome::kCancelled, {}, std::nullopt);
  }
  if (counts && record.alone) {
    ++stats_.quarantined;
    const std::string message = "instance " + instance +
                                " ended while it ran this request alone, and another one before "
                                "while it ran this request in company";
    Emit(record.request.id,
         WriteDeadLetter{record.request,
                         {record.source_topic, record.source_partition, record.source_offset},
                         "quarantine",
                         std::string(StatusCodeName(StatusCode::kAborted)),
                         message});
    return EndWithError(entry, wire::Outcome::kDead, {StatusCode::kAborted, message, false});
  }
  if (record.request.kind == wire::RequestKind::kGenerationOnly) {
    return EndWithError(
        entry, wire::Outcome::kError,
        {StatusCode::kUnavailable,
         "instance " + instance + " ended during generation; the hand-off cannot be fetched twice",
         false});
  }
  if (counts) {
    ++entry.record.deaths;
    entry.record.alone = true;
  }
  Retry(entry, now_ms_);
}

void Ledger::Retry(Entry& entry, int64_t due_ms) {
  Unindex(entry);
  ++stats_.retries;
  wire::LedgerRequest& record = entry.record;
  record.attempt = Attempt(record.attempt.value + 1);
  record.state = due_ms > now_ms_ ? RequestState::kParked : RequestState::kReceived;
  record.parked_until_ms = due_ms > now_ms_ ? due_ms : 0;
  // The names stay, as the instances to avoid.
  record.context_instance_epoch = {};
  record.context_lease = {};
  record.generation_instance_epoch = {};
  record.generation_lease = {};
  record.handoff.reset();
  record.prompt_tokens.clear();
  record.first_tokens.clear();
  record.first_logprobs.clear();
  record.timings = {};
  record.cached_tokens = 0;
  entry.timings = {};
  Write(entry);
}

void Ledger::StartCancel(Entry& entry) {
  wire::LedgerRequest& record = entry.record;
  if (record.cancel_requested) return;
  const bool running = record.state == RequestState::kContext ||
                       record.state == RequestState::kGeneration ||
                       record.state == RequestState::kFull;
  if (!running) {
    CancelSides(entry);
    return End(entry, wire::Outcome::kCancelled, {}, std::nullopt);
  }
  Unindex(entry);
  record.cancel_requested = true;
  record.parked_until_ms = now_ms_ + limits_.cancel_wait_ms;
  Write(entry);
  CancelSides(entry);
}

void Ledger::EndByClock(Entry& entry) {
  Unindex(entry);
  if (entry.pending) return PublishSmall(entry);
  const wire::LedgerRequest& record = entry.record;
  const int64_t deadline_ms = record.request.deadline_ms;
  const bool late = deadline_ms > 0 && now_ms_ >= deadline_ms;
  switch (record.state) {
    case RequestState::kContext:
    case RequestState::kGeneration:
    case RequestState::kFull:
      if (record.cancel_requested && now_ms_ >= record.parked_until_ms) {
        return End(entry, wire::Outcome::kCancelled, {}, std::nullopt);
      }
      CHECK(late && now_ms_ >= deadline_ms + limits_.deadline_slack_ms, "woken for nothing");
      CancelSides(entry);
      return End(entry, wire::Outcome::kExpired, {}, std::nullopt);
    default:
      break;
  }
  if (late) {
    CancelSides(entry);  // the context side of a hand-off
    return End(entry, wire::Outcome::kExpired, {}, std::nullopt);
  }
  Index(entry);  // a parked retry is due
}

void Ledger::EndWithError(Entry& entry, wire::Outcome outcome, wire::ErrorInfo error) {
  End(entry, outcome, {}, std::move(error));
}

void Ledger::End(Entry& entry, wire::Outcome outcome, wire::Output output,
                 std::optional<wire::ErrorInfo> error) {
  Unindex(entry);
  const wire::LedgerRequest& record = entry.record;
  wire::ResultRecord result;
  result.id = record.request.id;
  result.outcome = outcome;
  result.attempt = record.attempt;
  result.controller_epoch = epoch_;
  result.output = std::move(output);
  result.output.finish = FinishOf(outcome, result.output.finish);
  if (result.output.prompt_tokens == 0) {
    result.output.prompt_tokens = record.prompt_tokens.size();
  }
  if (result.output.cached_tokens == 0) result.output.cached_tokens = record.cached_tokens;
  result.error = std::move(error);
  result.timings = Sum(record.timings, entry.timings);
  result.job = record.request.job;
  result.correlation_id = record.request.correlation_id;
  if (record.request.want_provenance) {
    wire::Provenance provenance;
    provenance.model = record.request.model;
    provenance.seed = record.request.sampling.seed.value_or(0);
    provenance.context_instance = record.context_instance;
    provenance.generation_instance = record.generation_instance;
    if (record.handoff) provenance.weights_hash = record.handoff->layout.weights_hash;
    result.provenance = std::move(provenance);
  }
  entry.pending = Pending{outcome, result.timings, result.output.cached_tokens, false, ""};
  Emit(record.request.id, PublishTerminal{std::move(result)});
}

void Ledger::PublishSmall(const Entry& entry) {
  const wire::LedgerRequest& record = entry.record;
  wire::ResultRecord result;
  result.id = record.request.id;
  result.outcome = entry.pending->outcome;
  result.attempt = record.attempt;
  result.controller_epoch = epoch_;
  result.output.finish = FinishOf(result.outcome, wire::FinishReason::kError);
  result.error =
      wire::ErrorInfo{StatusCode::kResourceExhausted,
                      "the result could not be written: " + entry.pending->why_replaced, false};
  // Texts of the client's own making are cut: they may be what was too large.
  result.job = record.request.job.substr(0, 256);
  result.correlation_id = record.request.correlation_id.substr(0, 256);
  Emit(record.request.id, PublishTerminal{std::move(result)});
}

void Ledger::Finish(Entry& entry, const Pending& how, int32_t partition, int64_t offset) {
  Unindex(entry);
  const wire::LedgerRequest& old = entry.record;
  const Identity id = old.request.id;
  wire::LedgerRequest record;
  record.request.id = id;
  record.state = RequestState::kDone;
  record.attempt = old.attempt;
  record.controller_epoch = epoch_;
  record.content_hash = old.content_hash;
  record.source_topic = old.source_topic;
  record.source_partition = old.source_partition;
  record.source_offset = old.source_offset;
  record.received_ms = old.received_ms;
  record.parked_until_ms = now_ms_ + limits_.dedupe_window_ms;
  record.outcome = how.outcome;
  record.result_partition = partition;
  record.result_offset = offset;
  record.timings = how.timings;
  record.cached_tokens = how.cached_tokens;
  ++stats_.outcomes[static_cast<size_t>(how.outcome)];

  const Source source{old.source_topic, old.source_partition, old.source_offset};
  DropMark(id);
  Remember(id, {record.content_hash, partition, offset, record.parked_until_ms, source,
                record.outcome, record.attempt});
  Emit(id, WriteRecord{std::move(record)});
  Emit(id, SettleResult{partition, offset});
  if (!old.request.reply_topic.empty()) {
    Emit(id, PublishCopy{partition, offset, old.request.correlation_id, old.request.reply_topic});
  }
  for (const Waiter& waiter : entry.waiters) {
    Emit(id, PublishCopy{partition, offset, waiter.correlation_id, waiter.reply_topic});
  }
  if (entry.settle_at_done) Emit(id, Settle{source});
  entries_.erase(id);
}

void Ledger::SendTo(const Entry& entry, bool context_side, wire::AssignmentKind kind) {
  const wire::LedgerRequest& record = entry.record;
  if ((context_side ? record.context_instance : record.generation_instance).empty()) return;
  wire::Assignment assignment;
  assignment.to.id = record.request.id;
  assignment.to.attempt = record.attempt;
  assignment.to.controller_epoch = epoch_;
  assignment.to.instance = context_side ? record.context_instance : record.generation_instance;
  assignment.to.instance_epoch =
      context_side ? record.context_instance_epoch : record.generation_instance_epoch;
  assignment.to.lease = context_side ? record.context_lease : record.generation_lease;
  assignment.kind = kind;
  assignment.phase = context_side && record.state != RequestState::kFull ? wire::Phase::kContext
                     : record.state == RequestState::kFull               ? wire::Phase::kFull
                                                                         : wire::Phase::kGeneration;
  Emit(record.request.id, SendAssignment{std::move(assignment)});
}

void Ledger::SendRun(const Entry& entry) {
  const wire::LedgerRequest& record = entry.record;
  const bool context = record.state == RequestState::kContext;
  SendTo(entry, context, wire::AssignmentKind::kRun);
  wire::Assignment& assignment = std::get<SendAssignment>(effects_.back().action).assignment;
  assignment.request = record.request;
  if (record.state != RequestState::kGeneration) return;
  wire::Request& request = *assignment.request;
  if (record.request.kind == wire::RequestKind::kGenerationOnly) {
    assignment.handoff = request.handoff;
    assignment.first_tokens = request.first_tokens;
    return;
  }
  assignment.handoff = record.handoff;
  assignment.first_tokens = record.first_tokens;
  assignment.first_logprobs = record.first_logprobs;
  if (!record.prompt_tokens.empty()) {
    request.prompt_tokens = record.prompt_tokens;
    request.prompt_text.clear();
    request.chat_messages_json.clear();
  }
}

void Ledger::CancelSides(const Entry& entry) {
  switch (entry.record.state) {
    case RequestState::kContext:
    case RequestState::kHandoff:
      return SendTo(entry, true, wire::AssignmentKind::kCancel);
    case RequestState::kGeneration:
      SendTo(entry, false, wire::AssignmentKind::kCancel);
      if (entry.record.request.kind != wire::RequestKind::kGenerationOnly) {
        SendTo(entry, true, wire::AssignmentKind::kCancel);
      }
      return;
    case RequestState::kFull:
      return SendTo(entry, false, wire::AssignmentKind::kCancel);
    default:
      return;
  }
}

void Ledger::Write(Entry& entry) {
  entry.record.controller_epoch = epoch_;
  entry.settle_at_done = false;
  Emit(entry.record.request.id, WriteRecord{entry.record});
  Index(entry);
}

}  // namespace baton::ledger
