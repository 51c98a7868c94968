#include "src/controller/instances.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace baton::controller {

namespace {
constexpr size_t kReplacedKept = 8;
}

Status Instances::Refusal(const wire::Registration& registration, int64_t wall_now_ms) const {
  const int64_t skew_ms = registration.wall_ms - wall_now_ms;
  if (std::abs(skew_ms) > options_.clock_skew_ms_max) {
    return FailedPreconditionError(
        fmt::format("the clock of '{}' is {} ms off the controller's, at most {} are allowed",
                    registration.instance, skew_ms, options_.clock_skew_ms_max));
  }
  if (registration.max_running == 0) {
    return InvalidArgumentError("max_running is 0: the instance could hold no assignment");
  }
  if (pairing_ == nullptr || registration.role == wire::Role::kMixed) return OkStatus();
  for (const auto& [name, life] : lives_) {
    const wire::Registration& other = life.record.registration;
    if (life.record.dead || name == registration.instance || other.role == registration.role ||
        other.role == wire::Role::kMixed || other.model != registration.model) {
      continue;
    }
    const bool is_context = registration.role == wire::Role::kContext;
    const Status status = pairing_(is_context ? registration.layout : other.layout,
                                   is_context ? other.layout : registration.layout);
    if (!status.ok()) return status.WithContext("cannot pair with instance '" + name + "'");
  }
  return OkStatus();
}

Instances::Decision Instances::Decide(const wire::Registration& registration,
                                      int64_t wall_now_ms) const {
  Decision decision;
  if (registration.instance.empty() || registration.incarnation.empty()) return decision;
  const auto found = lives_.find(registration.instance);
  if (found != lives_.end()) {
    const Life& life = found->second;
    const bool same = life.record.registration.incarnation == registration.incarnation;
    if (same && !life.record.dead) {
      decision.kind = Decision::Kind::kRepeat;
      return decision;
    }
    const bool former = std::find(life.replaced.begin(), life.replaced.end(),
                                  registration.incarnation) != life.replaced.end();
    if (same || former) {
      decision.kind = Decision::Kind::kRefuse;
      decision.refusal = AbortedError(same ? "this life was judged dead; start again"
                                           : "the name belongs to a later incarnation");
      return decision;
    }
  }
  if (Status refusal = Refusal(registration, wall_now_ms); !refusal.ok()) {
    decision.kind = Decision::Kind::kRefuse;
    decision.refusal = std::move(refusal);
    return decision;
  }
  decision.kind = Decision::Kind::kGrant;
  if (found != lives_.end() && !found->second.record.dead) {
    decision.gone = Gone(found->second, !found->second.beat.draining);
  }
  return decision;
}

std::optional<Slot> Instances::FreeSlot(const std::string& name) const {
  // A life keeps its name's slot; slots of the dead come last, so that a late write meets nobody.
  if (const auto found = lives_.find(name); found != lives_.end()) return found->second.record.slot;
  std::set<uint32_t> leased;
  std::set<uint32_t> dead;
  for (const auto& [other, life] : lives_) {
    (life.record.dead ? dead : leased).insert(life.record.slot.value);
  }
  for (uint32_t slot = 1; slot < slots_; ++slot) {
    if (leased.count(slot) == 0 && dead.count(slot) == 0) return Slot(slot);
  }
  for (const uint32_t slot : dead) {
    if (leased.count(slot) == 0) return Slot(slot);
  }
  return std::nullopt;
}

wire::LedgerInstance Instances::Grant(const wire::Registration& registration, Slot slot,
                                      int64_t start_offset, ControllerEpoch epoch, MonoTime now) {
  // Whoever is dead and had this slot is forgotten with it.
  std::erase_if(lives_, [&](const auto& item) {
    return item.second.record.dead && item.second.record.slot == slot &&
           item.first != registration.instance;
  });
  std::deque<std::string> replaced;
  if (const auto found = lives_.find(registration.instance); found != lives_.end()) {
    replaced = std::move(found->second.replaced);
    replaced.push_back(found->second.record.registration.incarnation);
    if (replaced.size() > kReplacedKept) replaced.pop_front();
  }
  Life life;
  life.record.registration = registration;
  life.record.instance_epoch = InstanceEpoch(++last_epoch_);
  life.record.slot = slot;
  life.record.lease = LeaseNumber(++last_lease_);
  life.record.start_offset = start_offset;
  life.record.controller_epoch = epoch;
  life.last_beat = life.last_progress = now;
  life.replaced = std::move(replaced);
  return (lives_[registration.instance] = std::move(life)).record;
}

void Instances::Restore(const wire::LedgerInstance& record, MonoTime now) {
  Life& life = lives_[record.registration.instance];
  if (!life.record.registration.incarnation.empty() &&
      life.record.registration.incarnation != record.registration.incarnation) {
    life.replaced.push_back(life.record.registration.incarnation);
    if (life.replaced.size() > kReplacedKept) life.replaced.pop_front();
  }
  life.record = record;
  life.last_beat = life.last_progress = now;
  last_epoch_ = std::max(last_epoch_, record.instance_epoch.value);
  last_lease_ = std::max(last_lease_, record.lease.value);
}

bool Instances::OnHeartbeat(const wire::Heartbeat& beat, MonoTime now) {
  const auto found = lives_.find(beat.instance);
  if (found == lives_.end()) return false;
  Life& life = found->second;
  if (life.record.dead || life.record.instance_epoch != beat.instance_epoch ||
      life.record.registration.incarnation != beat.incarnation) {
    return false;
  }
  life.last_beat = now;
  // An instance without work has nothing to get on with.
  if (beat.progress != life.beat.progress || beat.running + beat.queued == 0) {
    life.last_progress = now;
  }
  life.beat = beat;
  return true;
}

// Requests of the step that runs are known from the last heartbeat; what was assigned after it may
// have begun since, so it is held possible too. The price of being wrong is one run alone.
ledger::InstanceGone Instances::Gone(const Life& life, bool crashed) const {
  ledger::InstanceGone gone{
      life.record.registration.instance, life.record.instance_epoch, crashed, {}};
  std::set<Identity> in_step(life.beat.in_step.begin(), life.beat.in_step.end());
  for (const auto& [key, held] : life.held) {
    if (held.since >= life.last_beat) in_step.insert(std::get<0>(key));
  }
  gone.in_step.assign(in_step.begin(), in_step.end());
  return gone;
}

std::vector<ledger::InstanceGone> Instances::Judge(MonoTime now) {
  std::vector<ledger::InstanceGone> gone;
  for (auto& [name, life] : lives_) {
    if (life.record.dead) continue;
    const Nanos silent = now - life.last_beat;
    const bool drained = life.beat.draining && silent >= options_.suspect;
    const bool stalled = now - life.last_progress >= options_.stall;
    if (silent < options_.dead && !drained && !stalled) continue;
    gone.push_back(Gone(life, !life.beat.draining));
    life.record.dead = true;
    life.held.clear();
    life.bytes = 0;
  }
  return gone;
}

void Instances::ForgiveAll(MonoTime now) {
  for (auto& [name, life] : lives_) life.last_beat = life.last_progress = now;
}

bool Instances::AnySuspect(MonoTime now) const {
  return std::any_of(lives_.begin(), lives_.end(), [&](const auto& item) {
    const Life& life = item.second;
    return !life.record.dead && (now - life.last_beat >= options_.suspect / 2 ||
                                 now - life.last_progress >= options_.stall / 2);
  });
}

void Instances::Charge(const wire::Address& to, wire::Phase phase, uint64_t bytes, bool alone,
                       MonoTime now) {
  const auto found = lives_.find(to.instance);
  if (found == lives_.end() || found->second.record.instance_epoch != to.instance_epoch) return;
  Life& life = found->second;
  const HeldKey key{to.id, to.attempt.value, static_cast<uint8_t>(phase)};
  if (life.held.emplace(key, Held{bytes, alone, now}).second) life.bytes += bytes;
}

void Instances::Release(const wire::Address& from, wire::Phase phase) {
  const auto found = lives_.find(from.instance);
  if (found == lives_.end() || found->second.record.instance_epoch != from.instance_epoch) return;
  Life& life = found->second;
  const auto held = life.held.find({from.id, from.attempt.value, static_cast<uint8_t>(phase)});
  if (held == life.held.end()) return;
  life.bytes -= held->second.bytes;
  life.held.erase(held);
}

const wire::LedgerInstance* Instances::Find(const std::string& name) const {
  const auto found = lives_.find(name);
  return found == lives_.end() ? nullptr : &found->second.record;
}

bool Instances::Alive(const std::string& name, InstanceEpoch epoch) const {
  const wire::LedgerInstance* record = Find(name);
  return record != nullptr && !record->dead && record->instance_epoch == epoch;
}

std::vector<const wire::LedgerInstance*> Instances::AliveOnes() const {
  std::vector<const wire::LedgerInstance*> alive;
  for (const auto& [name, life] : lives_) {
    if (!life.record.dead) alive.push_back(&life.record);
  }
  return alive;
}

size_t Instances::alive_count() const { return AliveOnes().size(); }

bool Instances::ModelMayBeServed(const std::string& model) const {
  return lives_.empty() || std::any_of(lives_.begin(), lives_.end(), [&model](const auto& item) {
           return item.second.record.registration.model == model;
         });
}

std::vector<InstanceView> Instances::Views(MonoTime now) const {
  std::vector<InstanceView> views;
  for (const auto& [name, life] : lives_) {
    if (life.record.dead) continue;
    const wire::Registration& registration = life.record.registration;
    InstanceView view;
    view.target = {name, life.record.instance_epoch, life.record.lease};
    view.role = registration.role;
    view.model = registration.model;
    view.layout = &registration.layout;
    view.usable = !life.beat.draining && now - life.last_beat < options_.suspect;
    view.exclusive = std::any_of(life.held.begin(), life.held.end(),
                                 [](const auto& item) { return item.second.alone; });
    view.running = static_cast<uint32_t>(life.held.size());
    view.running_max = registration.max_running;
    view.bytes = life.bytes;
    view.bytes_max = registration.max_bytes == 0
                         ? slot_bytes_max_
                         : std::min(slot_bytes_max_, registration.max_bytes);
    views.push_back(std::move(view));
  }
  return views;
}

}  // namespace baton::controller
