#include "src/instance/leader.h"

#include <algorithm>
#include <utility>

#include "src/base/log.h"
#include "src/base/rng.h"
#include "src/wire/codec.h"

namespace baton::instance {
namespace {

// Finished runs remembered for repeated assignments; credits bound what runs.
constexpr size_t kRecentRunsMax = 4096;
// While work is under way the loop waits on the engine, not on the consumer.
constexpr Nanos kBusyWait = std::chrono::milliseconds(1);
// At most so many records of the slot in one turn, so that answers and heartbeats are never late.
constexpr int kSlotBatchMax = 64;
constexpr Nanos kQueueFullWait = std::chrono::milliseconds(10);

RunKey KeyOf(const wire::Assignment& assignment) {
  return {assignment.to.id, assignment.to.attempt, assignment.phase};
}

}  // namespace

Leader::Leader(const LeaderOptions& options, Clock* clock, std::unique_ptr<bus::Producer> producer,
               std::unique_ptr<bus::Consumer> grants, std::unique_ptr<bus::Consumer> slot)
    : options_(options),
      clock_(clock),
      registration_(options.registration),
      producer_(std::move(producer)),
      grants_(std::move(grants)),
      slot_(std::move(slot)),
      recent_(kRecentRunsMax),
      last_delivery_(clock->Now()) {
  registration_.incarnation = RandomHexId();
}

Result<std::unique_ptr<Leader>> Leader::Create(const LeaderOptions& options, bus::Bus* bus,
                                               Clock* clock) {
  const std::string& name = options.registration.instance;
  ASSIGN_OR_RETURN(auto producer, bus->NewProducer(name + "-events"));
  ASSIGN_OR_RETURN(auto grants, bus->NewConsumer(name + "-grants"));
  ASSIGN_OR_RETURN(auto slot, bus->NewConsumer(name + "-slot"));
  BATON_RETURN_IF_ERROR(grants->Assign({{options.topics.Assign(), 0, bus::kOffsetEnd}}));
  return std::unique_ptr<Leader>(
      new Leader(options, clock, std::move(producer), std::move(grants), std::move(slot)));
}

Result<wire::Grant> Leader::Register(const std::atomic<bool>& stop) {
  MonoTime next = clock_->Now();
  while (!stop.load(std::memory_order_relaxed)) {
    if (clock_->Now() >= next) {
      BATON_RETURN_IF_ERROR(SendRegistration());
      next = clock_->Now() + options_.register_interval;
    }
    ASSIGN_OR_RETURN(std::optional<wire::Grant> grant, PollGrant(options_.idle_wait));
    producer_->Poll(Nanos::zero());
    if (!grant.has_value()) continue;
    if (!grant->refusal.ok()) {
      return FailedPreconditionError("the controller refused instance '" + registration_.instance +
                                     "': " + grant->refusal.message());
    }
    LOG(kInfo, "slot {} granted from offset {}: instance epoch {}, controller epoch {}",
        grant->slot.value, grant->start_offset, grant->instance_epoch.value,
        grant->controller_epoch.value);
    return std::move(*grant);
  }
  return CancelledError("told to stop before a slot was granted");
}

Status Leader::SendRegistration() {
  registration_.wall_ms = clock_->WallNow().ms;
  Send({options_.topics.Instances(),
        bus::kPartitionByKey,
        "reg/" + registration_.instance,
        wire::Encode(registration_),
        {}});
  return producer_->health();
}

Result<std::optional<wire::Grant>> Leader::PollGrant(Nanos timeout) {
  ASSIGN_OR_RETURN(std::optional<bus::Record> record, grants_->Poll(timeout));
  if (!record.has_value() || !record->value.has_value()) return std::optional<wire::Grant>();
  Result<wire::Grant> grant = wire::DecodeGrant(*record->value);
  if (!grant.ok()) {
    ++stats_.undecodable;
    LOG(kWarning, "slot 0 offset {}: {}", record->offset, grant.status().message());
    return std::optional<wire::Grant>();
  }
  if (grant->instance != registration_.instance) return std::optional<wire::Grant>();
  if (grant->incarnation != registration_.incarnation) {
    // Ours alone waits for a grant before it serves; the other life has the name now.
    if (grant_.instance_epoch.value != 0 && grant->instance_epoch > grant_.instance_epoch) {
      return AbortedError(fmt::format(
          "instance name '{}' was granted to another incarnation (epoch {}, ours is {})",
          registration_.instance, grant->instance_epoch.value, grant_.instance_epoch.value));
    }
    return std::optional<wire::Grant>();
  }
  return std::optional<wire::Grant>(std::move(*grant));
}

Status Leader::Begin(const wire::Grant& grant, const Engine& engine) {
  grant_ = grant;
  engine_ = engine;
  controller_epoch_ = grant.controller_epoch;
  slot_offset_ = grant.start_offset;
  BATON_RETURN_IF_ERROR(slot_->Assign(
      {{options_.topics.Assign(), static_cast<int32_t>(grant.slot.value), grant.start_offset}}));
  next_beat_ = clock_->Now();
  return OkStatus();
}

Status Leader::Serve(const wire::Grant& grant, const Engine& engine,
                     const std::atomic<bool>& stop) {
  BATON_RETURN_IF_ERROR(Begin(grant, engine));
  while (!stop.load(std::memory_order_relaxed)) BATON_RETURN_IF_ERROR(Step(/*accept=*/true));

  LOG(kInfo, "draining {} requests", running_.size());
  Beat(/*draining=*/true);
  const MonoTime until = clock_->Now() + options_.drain_timeout;
  // Offered hand-offs are work too: their receivers still have to fetch.
  while ((!running_.empty() || engine_.executor->stats().leases_open > 0) &&
         clock_->Now() < until) {
    BATON_RETURN_IF_ERROR(Step(/*accept=*/false));
  }
  if (!running_.empty()) LOG(kWarning, "{} requests did not finish in time", running_.size());
  return producer_->Flush(options_.drain_timeout);
}

Status Leader::Step(bool accept) {
  const bool busy = !running_.empty();
  BATON_RETURN_IF_ERROR(ReadSlot(busy ? Nanos::zero() : options_.idle_wait, accept));
  BATON_RETURN_IF_ERROR(ReadGrants());
  for (const engine::ExecResponse& response :
       engine_.executor->AwaitAny(busy ? kBusyWait : Nanos::zero())) {
    HandleResponse(response);
  }
  producer_->Poll(Nanos::zero());
  if (clock_->Now() >= next_beat_) Beat(/*draining=*/!accept);
  BATON_RETURN_IF_ERROR(engine_.executor->health());
  return CheckDelivery();
}

Status Leader::ReadSlot(Nanos timeout, bool accept) {
  for (int i = 0; i < kSlotBatchMax; ++i) {
    ASSIGN_OR_RETURN(std::optional<bus::Record> record,
                     slot_->Poll(i == 0 ? timeout : Nanos::zero()));
    if (!record.has_value()) return OkStatus();
    slot_offset_ = record->offset + 1;
    if (!record->value.has_value()) continue;
    Result<wire::Assignment> assignment = wire::DecodeAssignment(*record->value);
    if (!assignment.ok()) {
      ++stats_.undecodable;
      LOG(kWarning, "slot {} offset {}: {}", grant_.slot.value, record->offset,
          assignment.status().message());
      continue;
    }
    BATON_RETURN_IF_ERROR(HandleAssignment(std::move(*assignment), accept));
  }
  return OkStatus();
}

Status Leader::ReadGrants() {
  ASSIGN_OR_RETURN(std::optional<wire::Grant> grant, PollGrant(Nanos::zero()));
  if (!grant.has_value() || grant->lease == grant_.lease) return OkStatus();
  return AbortedError(fmt::format("lease {} of slot {} was replaced by lease {} of slot {}",
                                  grant_.lease.value, grant_.slot.value, grant->lease.value,
                                  grant->slot.value));
}

Status Leader::HandleAssignment(wire::Assignment assignment, bool accept) {
  ++stats_.assignments;
  const wire::Address& to = assignment.to;
  if (to.controller_epoch < controller_epoch_) {
    ++stats_.stale_controller;
    return OkStatus();
  }
  controller_epoch_ = to.controller_epoch;
  if (to.instance != registration_.instance) {
    if (to.lease > grant_.lease) {
      return AbortedError(
          fmt::format("slot {} is leased to '{}' now", grant_.slot.value, to.instance));
    }
    ++stats_.foreign;
    return OkStatus();
  }
  if (to.instance_epoch > grant_.instance_epoch) {
    return AbortedError(fmt::format("epoch {} of '{}' is in use, this is epoch {}",
                                    to.instance_epoch.value, to.instance,
                                    grant_.instance_epoch.value));
  }
  if (to.instance_epoch < grant_.instance_epoch || to.lease != grant_.lease) {
    ++stats_.foreign;
    return OkStatus();
  }
  switch (assignment.kind) {
    case wire::AssignmentKind::kRun:
      // While draining nothing new starts; the controller re-routes what stays unanswered.
      if (accept) StartRun(std::move(assignment));
      break;
    case wire::AssignmentKind::kCancel:
      HandleCancel(assignment);
      break;
    case wire::AssignmentKind::kReleaseHandoff:
      HandleReleaseHandoff(assignment);
      break;
    case wire::AssignmentKind::kEpoch:
      break;
  }
  return OkStatus();
}

void Leader::StartRun(wire::Assignment assignment) {
  const RunKey key = KeyOf(assignment);
  if (const RecentRuns::Run* known = recent_.Find(key); known != nullptr) {
    ++stats_.repeated;
    if (known->last_event.has_value()) {
      wire::Event again = *known->last_event;
      again.from = assignment.to;
      SendEvent(again);
      return;
    }
    wire::Event accepted;
    accepted.from = assignment.to;
    accepted.phase = assignment.phase;
    SendEvent(accepted);
    return;
  }
  Result<engine::ExecRequest> request =
      ToExecRequest(assignment, *engine_.model, *engine_.tokenizer, *clock_);
  if (!request.ok()) {
    const bool client = request.status().code() == StatusCode::kInvalidArgument;
    recent_.Start(key, 0);
    FinishRun(key, FailureEvent(assignment, request.status(), client));
    return;
  }
  std::vector<int32_t> prompt = request->prompt;
  Result<engine::ExecId> id = engine_.executor->Enqueue(std::move(*request));
  if (!id.ok()) {
    const bool client = id.status().code() == StatusCode::kInvalidArgument;
    recent_.Start(key, 0);
    FinishRun(key, FailureEvent(assignment, id.status(), client));
    return;
  }
  recent_.Start(key, *id);
  wire::Event accepted;
  accepted.from = assignment.to;
  accepted.phase = assignment.phase;
  running_.emplace(*id, Run{std::move(assignment), std::move(prompt), {}, 0});
  SendEvent(accepted);
}

void Leader::HandleCancel(const wire::Assignment& assignment) {
  const RecentRuns::Run* run = recent_.Find(KeyOf(assignment));
  if (run != nullptr && !run->last_event.has_value()) {
    engine_.executor->Cancel(run->exec_id);  // its final response becomes the event
    return;
  }
  if (run != nullptr) {
    if (run->lease.has_value()) engine_.executor->WithdrawLease(*run->lease);
    SendEvent(*run->last_event);
    return;
  }
  // Never seen: remembered as cancelled, in case a repeat of the assignment is still to come.
  wire::Event event;
  event.from = assignment.to;
  event.kind = wire::EventKind::kCancelled;
  event.phase = assignment.phase;
  event.output.finish = wire::FinishReason::kCancelled;
  recent_.Start(KeyOf(assignment), 0);
  FinishRun(KeyOf(assignment), std::move(event));
}

void Leader::HandleReleaseHandoff(const wire::Assignment& assignment) {
  RunKey key = KeyOf(assignment);
  key.phase = wire::Phase::kContext;
  const RecentRuns::Run* run = recent_.Find(key);
  if (run == nullptr) return;
  if (run->lease.has_value())
    engine_.executor->WithdrawLease(*run->lease);
  else if (!run->last_event.has_value())
    engine_.executor->Cancel(run->exec_id);
}

void Leader::HandleResponse(const engine::ExecResponse& response) {
  const auto found = running_.find(response.id);
  if (found == running_.end()) return;  // answered before, by a failure of its own
  Run& run = found->second;
  if (run.assignment.request->stream) SendTokens(run, response);
  Append(response, &run.answer);
  if (!response.final) return;
  const RunKey key = KeyOf(run.assignment);
  wire::Event event =
      ToEvent(run.assignment, run.prompt, response, std::move(run.answer), *engine_.tokenizer);
  running_.erase(found);
  FinishRun(key, std::move(event));
}

void Leader::FinishRun(const RunKey& key, wire::Event event) {
  SendEvent(event);
  recent_.Finish(key, std::move(event));
}

void Leader::SendEvent(const wire::Event& event) {
  ++stats_.events;
  Send({options_.topics.Events(),
        bus::kPartitionByKey,
        event.from.id.Key(),
        wire::Encode(event),
        {}});
}

void Leader::SendTokens(Run& run, const engine::ExecResponse& response) {
  if (response.tokens.empty() && response.text.empty()) return;
  wire::TokenRecord record;
  record.id = run.assignment.to.id;
  record.attempt = run.assignment.to.attempt;
  record.instance_epoch = grant_.instance_epoch;
  record.sequence = run.next_sequence++;
  record.tokens = response.tokens;
  record.text = response.text;
  Send({options_.topics.Tokens(), bus::kPartitionByKey, record.id.Key(), wire::Encode(record), {}});
}

void Leader::Beat(bool draining) {
  next_beat_ = clock_->Now() + options_.heartbeat_interval;
  const engine::ExecStats stats = engine_.executor->stats();
  wire::Heartbeat beat;
  beat.instance = registration_.instance;
  beat.incarnation = registration_.incarnation;
  beat.instance_epoch = grant_.instance_epoch;
  beat.progress = stats.progress;
  beat.running = stats.running;
  beat.queued = stats.queued;
  beat.blocks_free = stats.blocks_free;
  beat.blocks_cached = stats.blocks_cached;
  beat.blocks_used = stats.blocks_used;
  beat.slot_offset = slot_offset_;
  beat.draining = draining;
  for (const engine::ExecId id : stats.in_step) {
    const auto run = running_.find(id);
    if (run != running_.end()) beat.in_step.push_back(run->second.assignment.to.id);
  }
  Send({options_.topics.Instances(),
        bus::kPartitionByKey,
        "hb/" + registration_.instance,
        wire::Encode(beat),
        {}});
}

void Leader::Send(const bus::OutRecord& record) {
  const std::string what = record.topic + " " + record.key;
  if (undelivered_ == 0) last_delivery_ = clock_->Now();
  const auto delivered = [this, what](const bus::Delivery& delivery) {
    --undelivered_;
    if (delivery.status.ok())
      last_delivery_ = clock_->Now();
    else
      delivery_error_ = delivery.status.WithContext(what);
  };
  while (true) {
    ++undelivered_;
    Status status = producer_->Produce(record, delivered);
    if (status.ok()) return;
    --undelivered_;
    if (status.code() != StatusCode::kResourceExhausted || !CheckDelivery().ok()) {
      delivery_error_ = status.WithContext(what);
      return;
    }
    producer_->Poll(kQueueFullWait);
  }
}

Status Leader::CheckDelivery() const {
  if (!delivery_error_.ok()) return delivery_error_;
  BATON_RETURN_IF_ERROR(producer_->health());
  if (undelivered_ > 0 && clock_->Now() - last_delivery_ > options_.delivery_timeout) {
    return UnavailableError(fmt::format(
        "the broker acknowledged none of {} records for {} s", undelivered_,
        std::chrono::duration_cast<std::chrono::seconds>(clock_->Now() - last_delivery_).count()));
  }
  return OkStatus();
}

}  // namespace baton::instance
