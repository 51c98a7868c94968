// What comes in: requests, events, registrations, heartbeats, control. All of it is hostile until
// the codec says otherwise.
#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cstdlib>

#include "src/base/log.h"
#include "src/controller/controller.h"
#include "src/wire/codec.h"

namespace baton::controller {

namespace {

// 8 : 3 : 1 for high, normal and batch, spread so that no class waits for a whole round.
constexpr std::array<uint8_t, 12> kIntakeOrder = {0, 1, 0, 0, 2, 0, 1, 0, 0, 1, 0, 0};

}  // namespace

Result<bool> Controller::ReadInputs() {
  bool did = false;
  const uint64_t losses_before = events_->losses();
  // Completions first: they free what intake needs.
  for (size_t i = 0; i < options_.inputs_per_step; ++i) {
    ASSIGN_OR_RETURN(const std::optional<bus::Record> record, events_->Poll(Nanos::zero()));
    if (!record) break;
    OnEvent(*record);
    did = true;
  }
  if (events_->losses() != losses_before) {
    // Whatever the lost events said, the instances say it again when they are asked again.
    Absorb(ledger_->Resume(ledger_->epoch(), WallMs()));
    did = true;
  }
  for (size_t i = 0; i < options_.inputs_per_step; ++i) {
    ASSIGN_OR_RETURN(const std::optional<bus::Record> record, registrations_->Poll(Nanos::zero()));
    if (!record) break;
    OnInstanceRecord(*record);
    did = true;
  }
  for (size_t i = 0; i < options_.inputs_per_step; ++i) {
    ASSIGN_OR_RETURN(const std::optional<bus::Record> record, control_->Poll(Nanos::zero()));
    if (!record) break;
    OnControl(*record);
    did = true;
  }
  ASSIGN_OR_RETURN(const bool taken, ReadIntake());
  stats_.losses = events_->losses() + registrations_->losses() + control_->losses();
  for (const Reader& reader : intake_) stats_.losses += reader.losses();
  return did || taken;
}

Result<bool> Controller::ReadIntake() {
  std::array<bool, 3> empty = {false, false, false};
  bool did = false;
  for (size_t i = 0; i < options_.inputs_per_step; ++i) {
    // A paused consumer still has to be polled. So does one that is read no further for now.
    const bool full = paused_ || ledger_->AtCapacity() || !backlog_.empty();
    if (full && !paused_) break;
    const uint8_t klass = kIntakeOrder[intake_turn_++ % kIntakeOrder.size()];
    if (empty[klass]) {
      if (empty[0] && empty[1] && empty[2]) break;
      continue;
    }
    ASSIGN_OR_RETURN(const std::optional<bus::Record> record, intake_[klass].Poll(Nanos::zero()));
    if (!record) {
      empty[klass] = true;
      continue;
    }
    BATON_RETURN_IF_ERROR(OnRequest(*record));
    did = true;
  }
  return did;
}

Status Controller::SetIntake() {
  const size_t fill = ledger_->FillPercent();
  const bool pause = paused_ ? fill > options_.resume_percent : fill >= options_.pause_percent;
  if (pause == paused_) return OkStatus();
  paused_ = pause;
  if (pause) ++stats_.pauses;
  LOG(kDebug, "intake {} with {} in flight", pause ? "paused" : "resumed", ledger_->in_flight());
  for (Reader& reader : intake_) BATON_RETURN_IF_ERROR(reader.SetPaused(pause));
  return OkStatus();
}

Status Controller::OnRequest(const bus::Record& record) {
  ++stats_.requests;
  inputs_.Read(record.topic, record.partition, record.offset);
  if (!record.value) {
    BuryRecord(record, InvalidArgumentError("meaning: a request without a value"), true);
    return OkStatus();
  }
  const ledger::Source source{record.topic, record.partition, record.offset};
  Result<wire::Request> request = wire::DecodeRequest(*record.value);
  if (!request.ok()) {
    // Nobody to answer to, unless the key names one and only the meaning is at fault.
    Identity id;
    const bool readable = request.status().message().starts_with("meaning: ") &&
                          Identity::FromKey(record.key, &id) && !id.request_id.empty() &&
                          !ledger::IsReservedTenant(id.tenant);
    BuryRecord(record, request.status(), !readable);
    if (!readable) return OkStatus();
    ledger::Submitted event;
    event.request.id = std::move(id);
    event.content_hash = XXH3_64bits(record.value->data(), record.value->size()) | 1;
    event.source = source;
    event.timestamp_ms = record.timestamp_ms;
    event.refusal = wire::ErrorInfo{request.status().code(), request.status().message(), true};
    Apply(event);
    return OkStatus();
  }
  if (request->id.request_id.empty() || ledger::IsReservedTenant(request->id.tenant)) {
    BuryRecord(record,
               InvalidArgumentError("meaning: id: an empty request id, or a tenant named pos, "
                                    "claim, inst or mark"),
               true);
    return OkStatus();
  }
  ledger::Submitted event;
  event.content_hash = std::max<uint64_t>(1, wire::ContentHash(*request));
  event.source = source;
  event.timestamp_ms = record.timestamp_ms;
  event.fresh_seed = rng_.Next();
  event.refusal = WhyRefused(*request);
  event.request = std::move(*request);
  if (event.refusal) event.request.reply_topic.clear();
  Apply(event);
  return OkStatus();
}

std::optional<wire::ErrorInfo> Controller::WhyRefused(const wire::Request& request) const {
  const auto client = [](const Status& status) {
    return wire::ErrorInfo{status.code(), status.message(), true};
  };
  if (const Status status = wire::ValidateRequest(request); !status.ok()) return client(status);
  const auto& allowed = options_.reply_topics;
  if (!request.reply_topic.empty() &&
      std::find(allowed.begin(), allowed.end(), request.reply_topic) == allowed.end()) {
    return client(
        InvalidArgumentError("reply_topic: '" + request.reply_topic + "' is not allowed here"));
  }
  if (request.model.empty() || instances_->ModelMayBeServed(request.model)) return std::nullopt;
  return client(InvalidArgumentError("model: '" + request.model + "' is served by no instance"));
}

void Controller::OnEvent(const bus::Record& record) {
  ++stats_.events;
  Result<wire::Event> event = record.value
                                  ? wire::DecodeEvent(*record.value)
                                  : Result<wire::Event>(InvalidArgumentError("meaning: no value"));
  if (!event.ok()) return BuryRecord(record, event.status(), false);
  // The instance's last word on an assignment gives its credit back, stale or not.
  if (event->kind != wire::EventKind::kAccepted) {
    instances_->Release(event->from, event->phase);
  }
  Apply(ledger::FromInstance{std::move(*event)});
}

void Controller::OnInstanceRecord(const bus::Record& record) {
  if (record.key.starts_with("probe/")) {
    if (record.key == "probe/" + uuid_) {
      probe_seen_ = clock_->Now();
      probe_sent_.reset();
    }
    return;
  }
  if (!record.value) return;  // a tombstone
  Status failed;
  if (record.key.starts_with("reg/")) {
    Result<wire::Registration> registration = wire::DecodeRegistration(*record.value);
    failed = registration.ok() ? OnRegistration(*registration) : registration.status();
  } else {
    const Result<wire::Heartbeat> beat = wire::DecodeHeartbeat(*record.value);
    if (beat.ok()) return OnHeartbeat(*beat);
    failed = beat.status();
  }
  if (!failed.ok()) BuryRecord(record, failed, false);
}

Status Controller::OnRegistration(const wire::Registration& registration) {
  using Kind = Instances::Decision::Kind;
  const Instances::Decision decision = instances_->Decide(registration, WallMs());
  wire::Grant grant;
  grant.instance = registration.instance;
  grant.incarnation = registration.incarnation;
  grant.controller_epoch = ledger_->epoch();
  Status refusal = decision.refusal;
  std::optional<Slot> slot;
  int64_t start_offset = 0;
  if (decision.kind == Kind::kIgnore) {
    return InvalidArgumentError("meaning: a registration without name or incarnation");
  }
  if (decision.kind == Kind::kGrant) {
    slot = instances_->FreeSlot(registration.instance);
    if (!slot) {
      refusal = ResourceExhaustedError("every slot is leased");
    } else {
      const Result<bus::Watermarks> marks = registrations_->consumer().GetWatermarks(
          options_.topics.Assign(), static_cast<int32_t>(slot->value), std::chrono::seconds(2));
      if (!marks.ok()) {  // the instance repeats its registration
        LOG(kWarning, "no grant for '{}' now: {}", registration.instance,
            marks.status().ToString());
        return OkStatus();
      }
      start_offset = marks->high;
    }
  }
  if (!refusal.ok()) {
    ++stats_.refusals;
    LOG(kWarning, "instance '{}' refused: {}", registration.instance, refusal.ToString());
    grant.refusal = refusal;
    Send({options_.topics.Assign(), 0, grant.instance, wire::Encode(grant), {}}, {});
    return OkStatus();
  }
  if (decision.gone) {
    ++stats_.deaths;
    LOG(kWarning, "instance '{}' was replaced by a new incarnation", registration.instance);
  }
  const wire::LedgerInstance record =
      decision.kind == Kind::kGrant
          ? instances_->Grant(registration, *slot, start_offset, ledger_->epoch(), clock_->Now())
          : *instances_->Find(registration.instance);
  if (decision.gone) Apply(*decision.gone);
  grant.instance_epoch = record.instance_epoch;
  grant.slot = record.slot;
  grant.start_offset = record.start_offset;
  grant.lease = record.lease;
  ++stats_.grants;
  WriteInstance(record, std::move(grant));
  return OkStatus();
}

void Controller::OnHeartbeat(const wire::Heartbeat& beat) {
  ++stats_.heartbeats;
  if (instances_->OnHeartbeat(beat, clock_->Now())) return;
  ++stats_.stale_heartbeats;
  // Of a life that is over and does not know it yet.
  const wire::LedgerInstance* known = instances_->Find(beat.instance);
  if (known == nullptr) return;
  wire::Grant grant;
  grant.instance = beat.instance;
  grant.incarnation = beat.incarnation;
  grant.controller_epoch = ledger_->epoch();
  grant.instance_epoch = known->instance_epoch;
  grant.refusal = AbortedError("this life was judged dead or replaced; start again");
  Send({options_.topics.Assign(), 0, grant.instance, wire::Encode(grant), {}}, {});
}

void Controller::OnControl(const bus::Record& record) {
  ++stats_.controls;
  inputs_.Read(record.topic, record.partition, record.offset);
  const ledger::Source source{record.topic, record.partition, record.offset};
  Result<wire::Control> control =
      record.value ? wire::DecodeControl(*record.value)
                   : Result<wire::Control>(InvalidArgumentError("meaning: no value"));
  if (control.ok() && control->kind != wire::ControlKind::kCancel) {
    control = InvalidArgumentError("meaning: this kind of control is not supported");
  }
  if (control.ok() && control->scope == wire::ControlScope::kRequest &&
      (control->id.request_id.empty() || ledger::IsReservedTenant(control->id.tenant))) {
    control = InvalidArgumentError("meaning: a cancel without a request id");
  }
  if (!control.ok()) return BuryRecord(record, control.status(), true);
  switch (control->scope) {
    case wire::ControlScope::kRequest:
      return Apply(ledger::CancelAsked{control->id, source});
    case wire::ControlScope::kJob:
      return Apply(
          ledger::GroupCancelAsked{control->id.tenant, control->job, record.timestamp_ms, source});
    case wire::ControlScope::kTenant:
      return Apply(ledger::GroupCancelAsked{control->id.tenant, "", record.timestamp_ms, source});
  }
}

}  // namespace baton::controller
