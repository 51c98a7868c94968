#include "src/controller/controller.h"

#include <algorithm>
#include <utility>

#include "src/base/log.h"

namespace baton::controller {

Result<std::unique_ptr<Controller>> Controller::Create(const Options& options, bus::Bus* bus,
                                                       Clock* clock) {
  ASSIGN_OR_RETURN(const int32_t slots,
                   bus->PartitionCount(options.topics.Assign(), std::chrono::seconds(10)));
  ASSIGN_OR_RETURN(auto producer, bus->NewProducer("controller"));
  ASSIGN_OR_RETURN(auto copies, bus->NewConsumer("copies"));
  return std::unique_ptr<Controller>(
      new Controller(options, bus, clock, std::move(producer),
                     std::make_unique<Copies>(options.topics.Results(), std::move(copies)), slots));
}

Controller::Controller(const Options& options, bus::Bus* bus, Clock* clock,
                       std::unique_ptr<bus::Producer> producer, std::unique_ptr<Copies> copies,
                       int32_t slots)
    : options_(options),
      bus_(bus),
      clock_(clock),
      uuid_(RandomHexId()),
      rng_(options.seed != 0 ? options.seed : RandomSeed()),
      producer_(std::move(producer)),
      copies_(std::move(copies)),
      ledger_(std::make_unique<ledger::Ledger>(options.ledger, ControllerEpoch(0))),
      instances_(std::make_unique<Instances>(options.liveness, options.check_pairing,
                                             static_cast<uint32_t>(slots),
                                             options.slot_bytes_max)) {
  recovery_ = std::make_unique<Recovery>(
      options_.topics, options_.host, uuid_, bus_, producer_.get(), clock_,
      Recovery::Into{ledger_.get(), instances_.get(), &inputs_, &results_});
}

Result<bool> Controller::Turn(Nanos wait) {
  producer_->Poll(Nanos::zero());
  BATON_RETURN_IF_ERROR(producer_->health());
  if (!ready_) {
    ASSIGN_OR_RETURN(const bool finished, recovery_->Step(wait));
    if (finished) BATON_RETURN_IF_ERROR(FinishRecovery());
    return true;
  }
  bool did = RunAcks();
  ASSIGN_OR_RETURN(const bool read, ReadInputs());
  did = did || read;
  ASSIGN_OR_RETURN(
      const bool copied,
      copies_->Step(clock_->Now(), ledger_->epoch(),
                    [this](const Identity& id, const std::string& topic,
                           const wire::ResultRecord& record) { SendReply(id, topic, record); }));
  did = did || copied;
  BATON_RETURN_IF_ERROR(EndTurn());
  if (!did && wait > Nanos::zero()) {
    BATON_RETURN_IF_ERROR(Wait(wait));
    BATON_RETURN_IF_ERROR(EndTurn());
  }
  return did;
}

// Time, routing and what they led to.
Status Controller::EndTurn() {
  if (clock_->Now() >= next_tick_) Tick();
  Route();
  SendBacklog();
  chains_.Pump(
      [this](const Identity& id, const ledger::Action& action) { return StartAction(id, action); });
  BATON_RETURN_IF_ERROR(SetIntake());
  return fatal_;
}

// Sleeps where the next thing is expected.
Status Controller::Wait(Nanos wait) {
  if (outstanding_ > 0) {
    producer_->Poll(wait);
    return OkStatus();
  }
  const bool busy = ledger_->in_flight() > 0 || paused_;
  Reader& reader = busy ? *events_ : intake_[static_cast<size_t>(wire::Priority::kNormal)];
  ASSIGN_OR_RETURN(const std::optional<bus::Record> record, reader.Poll(wait));
  if (!record) return OkStatus();
  if (!busy) return OnRequest(*record);
  OnEvent(*record);
  return OkStatus();
}

Status Controller::Run(const std::atomic<bool>& stop) {
  while (!stop.load(std::memory_order_relaxed)) {
    BATON_RETURN_IF_ERROR(Turn(options_.idle_wait).status());
  }
  // What was taken in is safe in the ledger; the rest is only politeness.
  const MonoTime until = clock_->Now() + options_.drain_timeout;
  while (ready_ && unacknowledged() > 0 && clock_->Now() < until) {
    producer_->Poll(options_.idle_wait);
    RunAcks();
    SendBacklog();
    chains_.Pump([this](const Identity& id, const ledger::Action& action) {
      return StartAction(id, action);
    });
    BATON_RETURN_IF_ERROR(fatal_);
  }
  if (ready_) WritePositions();
  return producer_->Flush(options_.drain_timeout);
}

Status Controller::FinishRecovery() {
  const MonoTime now = clock_->Now();
  const wire::Topics& topics = options_.topics;
  const auto starts = [this](const std::string& topic, int32_t partitions) {
    std::vector<bus::StartPoint> found;
    for (int32_t p = 0; p < partitions; ++p) {
      const int64_t stored = inputs_.Get(topic, p);
      found.push_back({topic, p, stored >= 0 ? stored : bus::kOffsetBeginning});
    }
    return found;
  };
  // Events and registrations of before are of no use: all running work is sent again below and
  // answered under the new epoch, and instances repeat registrations and heartbeats.
  const auto from_end = [](const std::string& topic, int32_t partitions) {
    std::vector<bus::StartPoint> found;
    for (int32_t p = 0; p < partitions; ++p) found.push_back({topic, p, bus::kOffsetEnd});
    return found;
  };
  ASSIGN_OR_RETURN(
      Reader events,
      Reader::Create(bus_, "events", from_end(topics.Events(), wire::Topics::kEventPartitions)));
  events_.emplace(std::move(events));
  ASSIGN_OR_RETURN(Reader registrations,
                   Reader::Create(bus_, "instances", from_end(topics.Instances(), 1)));
  registrations_.emplace(std::move(registrations));
  ASSIGN_OR_RETURN(
      Reader control,
      Reader::Create(bus_, "control", starts(topics.Control(), wire::Topics::kControlPartitions)));
  control_.emplace(std::move(control));
  for (const wire::Priority priority :
       {wire::Priority::kHigh, wire::Priority::kNormal, wire::Priority::kBatch}) {
    ASSIGN_OR_RETURN(Reader reader, Reader::Create(bus_, "intake",
                                                   starts(topics.Requests(priority),
                                                          wire::Topics::kRequestPartitions)));
    intake_.push_back(std::move(reader));
  }

  const ControllerEpoch epoch = recovery_->epoch();
  instances_->ForgiveAll(now);
  Absorb(recovery_->TakeEffects());
  Absorb(ledger_->Resume(epoch, WallMs()));
  for (const wire::LedgerInstance* instance : instances_->AliveOnes()) {
    wire::Assignment hello;
    hello.kind = wire::AssignmentKind::kEpoch;
    hello.to.controller_epoch = epoch;
    hello.to.instance = instance->registration.instance;
    hello.to.instance_epoch = instance->instance_epoch;
    hello.to.lease = instance->lease;
    Absorb({{Identity{}, ledger::SendAssignment{std::move(hello)}}});
  }
  for (const ledger::Target& used : ledger_->InstancesInUse()) {
    if (instances_->Alive(used.instance, used.epoch)) continue;
    Apply(ledger::InstanceGone{used.instance, used.epoch, false, {}});
  }
  LOG(kInfo,
      "controller epoch {}: {} records read ({} stale), {} requests in flight, {} instances, {} "
      "finished requests remembered",
      epoch.value, recovery_->records(), recovery_->stale_records(), ledger_->in_flight(),
      instances_->alive_count(), ledger_->done_count());
  ready_ = true;
  probe_seen_ = now;
  next_tick_ = now;
  next_positions_ = now + options_.positions_interval;
  next_stats_ = now + options_.stats_interval;
  return OkStatus();
}

void Controller::Apply(const ledger::Event& event) { Absorb(ledger_->Apply(event, WallMs())); }

void Controller::Absorb(ledger::Effects effects) {
  const MonoTime now = clock_->Now();
  for (const ledger::Effect& effect : effects) {
    const auto* sent = std::get_if<ledger::SendAssignment>(&effect.action);
    if (sent == nullptr || sent->assignment.kind != wire::AssignmentKind::kRun) continue;
    const ledger::Entry* entry = ledger_->Find(effect.id);
    if (entry == nullptr) continue;
    instances_->Charge(sent->assignment.to, sent->assignment.phase, AskFor(*entry).bytes,
                       entry->record.alone, now);
  }
  chains_.Add(std::move(effects));
}

}  // namespace baton::controller
