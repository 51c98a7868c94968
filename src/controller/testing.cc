#include "src/controller/testing.h"

#include <algorithm>
#include <utility>

#include "src/base/check.h"
#include "src/base/rng.h"
#include "src/wire/codec.h"

namespace baton::controller::testing {

namespace {

template <typename T>
T Must(Result<T> result) {
  CHECK(result.ok(), result.status().ToString());
  return std::move(*result);
}

}  // namespace

Actor::Actor(bus::Bus* bus, Clock* clock, const wire::Topics& topics, const std::string& name,
             wire::Role role)
    : clock_(clock),
      topics_(topics),
      producer_(Must(bus->NewProducer(name))),
      grants_(Must(bus->NewConsumer(name))),
      slot_(Must(bus->NewConsumer(name))) {
  registration.instance = name;
  registration.incarnation = RandomHexId();
  registration.role = role;
  registration.model = "m";
  registration.max_running = 4;
  registration.max_bytes = 1 << 20;
  registration.layout.layers = 2;
  registration.layout.layers_per_stage = {2};
  registration.layout.heads = registration.layout.kv_heads = 1;
  registration.layout.head_dim = 4;
  behaviour = [](Actor& actor, const wire::Assignment& run) {
    actor.Answer(run, run.phase == wire::Phase::kContext ? wire::EventKind::kContextDone
                                                         : wire::EventKind::kGenerationDone);
  };
  CHECK_OK(grants_->Assign({{topics_.Assign(), 0, bus::kOffsetEnd}}));
}

void Actor::Step() {
  producer_->Poll(Nanos::zero());
  while (true) {
    const std::optional<bus::Record> record = Must(grants_->Poll(Nanos::zero()));
    if (!record) break;
    wire::Grant found = Must(wire::DecodeGrant(*record->value));
    if (found.incarnation != registration.incarnation) continue;
    if (!found.refusal.ok()) {
      refusal = std::move(found);
      continue;
    }
    if (grant) continue;
    grant = std::move(found);
    CHECK_OK(slot_->Assign(
        {{topics_.Assign(), static_cast<int32_t>(grant->slot.value), grant->start_offset}}));
  }
  if (!grant) {
    if (registers && clock_->Now() >= next_register_) {
      next_register_ = clock_->Now() + std::chrono::seconds(1);
      if (registration.wall_ms == 0) registration.wall_ms = clock_->WallNow().ms;
      CHECK_OK(producer_->Produce(
          {topics_.Instances(), 0, "reg/" + registration.instance, wire::Encode(registration), {}},
          nullptr));
    }
    return;
  }
  while (true) {
    const std::optional<bus::Record> record = Must(slot_->Poll(Nanos::zero()));
    if (!record) break;
    OnAssignment(Must(wire::DecodeAssignment(*record->value)));
  }
  if (beating && clock_->Now() >= next_beat_) Beat();
}

void Actor::Beat() {
  next_beat_ = clock_->Now() + std::chrono::seconds(1);
  wire::Heartbeat beat;
  beat.instance = registration.instance;
  beat.incarnation = registration.incarnation;
  beat.instance_epoch = grant->instance_epoch;
  if (moving) ++progress_;
  beat.progress = progress_;
  beat.running = static_cast<uint32_t>(held);
  beat.draining = draining;
  beat.in_step = in_step;
  CHECK_OK(producer_->Produce(
      {topics_.Instances(), 0, "hb/" + registration.instance, wire::Encode(beat), {}}, nullptr));
}

void Actor::OnAssignment(const wire::Assignment& assignment) {
  if (assignment.to.controller_epoch < controller_epoch) return;
  controller_epoch = assignment.to.controller_epoch;
  if (assignment.to.instance != registration.instance ||
      assignment.to.instance_epoch != grant->instance_epoch) {
    return;
  }
  const RunKey key{assignment.to.id, assignment.to.attempt.value, assignment.phase};
  switch (assignment.kind) {
    case wire::AssignmentKind::kEpoch:
      return;
    case wire::AssignmentKind::kReleaseHandoff:
      releases.push_back(assignment);
      return;
    case wire::AssignmentKind::kCancel: {
      cancels.push_back(assignment);
      const auto known = latest_.find(key);
      if (known != latest_.end() && known->second) return Send(*known->second);
      return Answer(assignment, wire::EventKind::kCancelled);
    }
    case wire::AssignmentKind::kRun:
      break;
  }
  runs.push_back(assignment);
  const auto [known, fresh] = latest_.try_emplace(key);
  if (!fresh) {  // never a second run
    if (!known->second) return;
    wire::Event again = *known->second;
    again.from = assignment.to;
    return Send(again);
  }
  ++held;
  ++runs_begun;
  held_max = std::max(held_max, held);
  wire::Event accepted;
  accepted.from = assignment.to;
  accepted.phase = assignment.phase;
  Send(accepted);
  behaviour(*this, assignment);
}

void Actor::Answer(const wire::Assignment& run, wire::EventKind kind) {
  wire::Event event;
  event.from = run.to;
  event.kind = kind;
  event.phase = run.phase;
  switch (kind) {
    case wire::EventKind::kContextDone:
      event.handoff.emplace();
      event.handoff->instance = run.to.instance;
      event.handoff->instance_epoch = run.to.instance_epoch;
      event.handoff->attempt = run.to.attempt;
      event.handoff->lease = 7;
      event.handoff->endpoints = {{0, "sim:0"}};
      event.handoff->layout = registration.layout;
      event.handoff->tokens = 3;
      event.handoff->blocks = {1};
      event.prompt_tokens = {1, 2, 3};
      event.first_tokens = {4};
      break;
    case wire::EventKind::kGenerationDone:
      event.output.tokens = {4, 5, 6};
      event.output.text = "done by " + run.to.instance;
      event.output.finish = wire::FinishReason::kLength;
      break;
    case wire::EventKind::kFailed:
      event.error = wire::ErrorInfo{StatusCode::kUnavailable, "made to fail", false};
      break;
    default:
      break;
  }
  const RunKey key{run.to.id, run.to.attempt.value, run.phase};
  if (kind != wire::EventKind::kAccepted) {
    std::optional<wire::Event>& last = latest_[key];
    if (!last && held > 0) --held;
    last = event;
  }
  Send(event);
}

void Actor::Send(const wire::Event& event) {
  CHECK_OK(producer_->Produce(
      {topics_.Events(), bus::kPartitionByKey, event.from.id.Key(), wire::Encode(event), {}},
      nullptr));
}

Cluster::Cluster(Options opts, bus::SimOptions sim)
    : bus(std::make_unique<bus::SimBus>(clock, sim)),
      topics(opts.topics),
      options(std::move(opts)) {
  options.seed = 11;
  std::vector<bus::TopicSettings> all;
  for (const wire::TopicSpec& spec : topics.All()) all.push_back({spec.name, spec.partitions, {}});
  all.push_back({"replies", 2, {}});
  CHECK_OK(bus->Provision(all, std::chrono::seconds(1)));
  client::Options client_options;
  client_options.topics = topics;
  client = Must(client::Client::Create(bus.get(), client_options));
  RestartController();
}

void Cluster::RestartController() {
  controller.reset();
  controller = Must(Controller::Create(options, bus.get(), &clock));
}

Actor& Cluster::Add(const std::string& name, wire::Role role) {
  actors[name] = std::make_unique<Actor>(bus.get(), &clock, topics, name, role);
  return *actors[name];
}

void Cluster::Remove(const std::string& name) { actors.erase(name); }

void Cluster::Step() {
  clock.Advance(std::chrono::milliseconds(1));
  if (failed.ok()) {
    // Three turns a millisecond: one alone would make each hop a millisecond long.
    for (int i = 0; i < 3 && failed.ok(); ++i) failed = controller->Step().status();
  }
  for (auto& [name, actor] : actors) actor->Step();
  while (true) {
    std::optional<client::Received> received = Must(client->Poll(Nanos::zero()));
    if (!received) break;
    results.push_back(std::get<wire::ResultRecord>(std::move(*received)));
  }
}

bool Cluster::Run(const std::function<bool()>& until, int steps_max) {
  for (int i = 0; i < steps_max && failed.ok(); ++i) {
    if (until()) return true;
    Step();
  }
  return until();
}

void Cluster::Pass(Nanos time) {
  const MonoTime until = clock.Now() + time;
  Run([&] { return clock.Now() >= until; }, 1'000'000);
}

bool Cluster::AllReady() {
  return std::all_of(actors.begin(), actors.end(),
                     [](const auto& item) { return item.second->grant.has_value(); });
}

wire::Request Cluster::Request(const std::string& id) const {
  wire::Request request;
  request.id = {"t", id};
  request.prompt_text = "hello";
  request.correlation_id = "c-" + id;
  return request;
}

void Cluster::Submit(const wire::Request& request) { CHECK_OK(client->Submit(request)); }

std::vector<bus::Record> Cluster::ReadAll(const std::string& topic, int32_t partitions) {
  auto consumer = Must(bus->NewConsumer("all"));
  std::vector<bus::StartPoint> starts;
  for (int32_t p = 0; p < partitions; ++p) starts.push_back({topic, p, bus::kOffsetBeginning});
  CHECK_OK(consumer->Assign(starts));
  std::vector<bus::Record> records;
  while (std::optional<bus::Record> record = Must(consumer->Poll(Nanos::zero()))) {
    records.push_back(std::move(*record));
  }
  return records;
}

std::vector<wire::ResultRecord> Cluster::Of(const std::string& id, wire::ResultKind kind) const {
  std::vector<wire::ResultRecord> found;
  for (const wire::ResultRecord& result : results) {
    if (result.id.request_id == id && result.kind == kind) found.push_back(result);
  }
  return found;
}

}  // namespace baton::controller::testing
