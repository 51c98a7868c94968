// Seeded histories against the invariants of design section 3: exactly one terminal record per
// request (1, 2), reaping on time without traffic (8), stale input dropped and counted (9); and the
// ledger rebuilt from its records equals the live one after every event. A failure names its seed;
// BATON_LEDGER_SEED=<seed> runs that one alone.
#include <gtest/gtest.h>

#include <cstdlib>
#include <deque>
#include <memory>

#include "src/base/rng.h"
#include "src/ledger/testing.h"

namespace baton::ledger {
namespace {

using wire::AssignmentKind;
using wire::EventKind;
using wire::RequestState;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kSeeds = 1000;  // a history costs ten times as much there
#else
constexpr int kSeeds = 4000;
#endif
constexpr int kSteps = 120;
constexpr int kIdentities = 8;

// Everything outside the ledger: durable topics, instances, messages under way.
class World {
 public:
  explicit World(uint64_t seed) : rng_(seed) {
    limits_.cancel_kept_ms = 20'000;
    limits_.marks_max = 3;
    limits_.dedupe_window_ms = 1'000'000'000;
    limits_.waiters_max = 2;
    ledger_ = std::make_unique<Ledger>(limits_, ControllerEpoch(epoch_));
    for (const char* name : {"c0", "c1", "g0", "g1", "m0"}) StartInstance(name);
  }

  // False once an invariant broke; `why()` says which.
  bool Run() {
    for (int i = 0; i < kSteps && why_.empty(); ++i) RandomStep();
    return why_.empty() && Settle() && Verdict();
  }
  const std::string& why() const { return why_; }
  // What this history went through, for the check that the histories are not tame.
  void AddTo(std::vector<uint64_t>* sums) const {
    std::vector<uint64_t> mine = seen_;
    AddStats(ledger_->stats(), &mine);
    sums->resize(mine.size());
    for (size_t i = 0; i < mine.size(); ++i) (*sums)[i] += mine[i];
  }

 private:
  static void AddStats(const Stats& s, std::vector<uint64_t>* sums) {
    std::vector<uint64_t> all = {
        s.refused,      s.repeats_in_flight, s.repeats_done,  s.conflicts,
        s.cancels_kept, s.failures,          s.retries,       s.deaths,
        s.quarantined,  s.results_replaced,  s.marks_evicted, s.waiters_refused};
    all.insert(all.end(), s.outcomes.begin(), s.outcomes.end());
    all.insert(all.end(), s.dropped.begin(), s.dropped.end());
    sums->resize(all.size());
    for (size_t i = 0; i < all.size(); ++i) (*sums)[i] += all[i];
  }

  struct Stored {
    wire::ResultRecord record;
    int64_t offset = 0;
  };

  void Fail(const std::string& text) {
    if (why_.empty()) why_ = text;
  }
  bool Chance(double p) { return rng_.Chance(p); }
  Identity Pick() { return {"t", "r" + std::to_string(rng_.Below(kIdentities))}; }
  void StartInstance(const std::string& name) {
    instances_[name] = Target{name, InstanceEpoch(++last_epoch_), LeaseNumber(last_epoch_ + 50)};
  }

  // ---- driving the ledger

  void Do(const Event& event) {
    Absorb(ledger_->Apply(event, now_ms_));
    CheckRebuild();
  }

  void Absorb(Effects effects) {
    for (Effect& effect : effects) {
      // As emitted: what a reader of the ledger topic would see if everything arrived.
      if (const auto* write = std::get_if<WriteRecord>(&effect.action)) {
        emitted_[KeyOf(write->record)] = write->record;
      } else if (const auto* gone = std::get_if<WriteTombstone>(&effect.action)) {
        emitted_.erase(gone->key);
      }
      chains_[effect.id].push_back(std::move(effect.action));
    }
  }

  void CheckRebuild() {
    Ledger rebuilt(limits_, ControllerEpoch(epoch_));
    for (const auto& [key, record] : emitted_) rebuilt.Restore(record);
    if (!(rebuilt.TakeSnapshot() == ledger_->TakeSnapshot())) Fail("rebuilt state differs");
  }

  // Carries out the first effect of one chain.
  void RunOne() {
    if (chains_.empty()) return;
    auto it = chains_.begin();
    std::advance(it, rng_.Below(chains_.size()));
    const Action action = std::move(it->second.front());
    it->second.pop_front();
    const Identity id = it->first;
    if (it->second.empty()) chains_.erase(it);
    std::visit([&](const auto& a) { Carry(id, a); }, action);
  }

  void Carry(const Identity&, const WriteRecord& a) { durable_[KeyOf(a.record)] = a.record; }
  void Carry(const Identity&, const WriteTombstone& a) { durable_.erase(a.key); }
  void Carry(const Identity&, const SendAssignment& a) {
    const auto found = instances_.find(a.assignment.to.instance);
    if (found == instances_.end() || found->second.epoch != a.assignment.to.instance_epoch) return;
    if (a.assignment.kind == AssignmentKind::kRun) {
      work_.push_back(a.assignment);
      if (work_.size() > 64) work_.pop_front();
    } else if (a.assignment.kind == AssignmentKind::kCancel && Chance(0.7)) {
      events_.push_back(testing::Answer(a.assignment, EventKind::kCancelled));
    }
  }
  void Carry(const Identity& id, const PublishTerminal& a) {
    if (refuse_results_ && Chance(0.1)) {
      return Do(TerminalRefused{id, InvalidArgumentError("too large")});
    }
    if (++terminals_[id] > 1) Fail("two terminal records for " + id.Key());
    const int64_t offset = static_cast<int64_t>(results_.size());
    results_.push_back({a.record, offset});
    Do(TerminalPublished{id, 0, offset});
  }
  void Carry(const Identity& id, const PublishCopy& a) {
    if (a.offset < 0 || results_.at(a.offset).record.id != id) Fail("a copy of another result");
  }
  void Carry(const Identity&, const PublishConflict&) {}
  void Carry(const Identity&, const WriteDeadLetter& a) { ++dead_letters_[a.request.id]; }
  void Carry(const Identity&, const ledger::Settle& a) {
    inputs_.erase({a.source.topic, a.source.offset});
    if (a.source.topic != "in") return;
    // A restart must still learn of it: recorded, ended on the topic, or to be read again.
    const Identity& id = submitted_.at(a.source.offset).request.id;
    if (durable_.count(id.Key()) != 0 || terminals_[id] != 0) return;
    for (const auto& [at, event] : inputs_) {
      const auto* other = std::get_if<Submitted>(&event);
      if (other != nullptr && other->request.id == id) return;
    }
    Fail("settled and forgotten: " + id.Key());
  }
  void Carry(const Identity&, const SettleResult&) {}

  // ---- what may happen

  void RandomStep() {
    switch (rng_.Below(16)) {
      case 0:
      case 1:
      case 2:
        return SubmitSomething();
      case 3:
      case 4:
        return Route();
      case 5:
      case 6:
        return Work(0.25);
      case 7:
      case 8:
        return DeliverEvent();
      case 9:
        return DeliverStale();
      case 10:
        return Cancel();
      case 11:
        return KillInstance();
      case 12:
        return PassTime(static_cast<int64_t>(rng_.Below(Chance(0.2) ? 30'000 : 300)));
      case 13:
        if (Chance(0.15)) return Restart();
        [[fallthrough]];
      default:
        return RunOne();
    }
  }

  void SubmitSomething() {
    Submitted event = testing::Submit("", next_offset_);
    event.request.id = Pick();
    // Content follows from the identity, conflicts apart.
    const uint64_t shape = event.request.id.request_id.back() - '0';
    if (shape == 0) {
      event.request.kind = wire::RequestKind::kGenerationOnly;
      event.request.handoff = testing::Handoff({});
      event.request.first_tokens = {8};
    }
    if (shape == 1) event.request.kind = wire::RequestKind::kContextOnly;
    if (shape % 2 == 1) event.request.job = "j";
    if (shape == 2) event.refusal = wire::ErrorInfo{StatusCode::kInvalidArgument, "no", true};
    event.content_hash = Chance(0.1) ? 9 : 7;
    if (Chance(0.5)) event.request.deadline_ms = now_ms_ + 1 + rng_.Below(5'000);
    if (Chance(0.3)) event.request.correlation_id = std::to_string(rng_.Below(4));
    event.timestamp_ms = now_ms_;
    inputs_[{"in", next_offset_}] = event;
    submitted_[next_offset_] = event;
    ++next_offset_;
    Do(event);
  }

  void Cancel() {
    Source source{"ctl", 0, next_offset_++};
    if (Chance(0.2)) {
      const GroupCancelAsked event{"t", Chance(0.5) ? "j" : "none", now_ms_, source};
      inputs_[{"ctl", source.offset}] = event;
      return Do(event);
    }
    const CancelAsked event{Pick(), source};
    inputs_[{"ctl", source.offset}] = event;
    Do(event);
  }

  const Target& PickInstance(std::string_view roles) {
    while (true) {
      auto it = instances_.begin();
      std::advance(it, rng_.Below(instances_.size()));
      if (roles.find(it->first[0]) != std::string_view::npos) return it->second;
    }
  }

  void Route() {
    const Need need = Chance(0.5) ? Need::kFirstPhase : Need::kGeneration;
    std::optional<Assigned> decision;
    ledger_->VisitReady(need, [&](const Entry& entry) {
      const bool full = need == Need::kFirstPhase &&
                        entry.record.request.kind == wire::RequestKind::kFull && Chance(0.4);
      const wire::Phase phase = full                        ? wire::Phase::kFull
                                : need == Need::kFirstPhase ? wire::Phase::kContext
                                                            : wire::Phase::kGeneration;
      decision = Assigned{entry.record.request.id, entry.record.attempt, phase,
                          PickInstance(full                        ? "m"
                                       : need == Need::kFirstPhase ? "cm"
                                                                   : "gm")};
      return Chance(0.5);
    });
    if (decision) Do(*decision);
    if (decision && Chance(0.05)) Do(*decision);  // a decision that comes too late
  }

  // An instance does something about one of its assignments; it may say the same thing again.
  void Work(double failure) {
    if (work_.empty()) return;
    const size_t at = rng_.Below(work_.size());
    const wire::Assignment assignment = work_[at];
    if (Chance(0.8)) work_.erase(work_.begin() + static_cast<std::ptrdiff_t>(at));
    EventKind kind = EventKind::kAccepted;
    const bool context = assignment.phase == wire::Phase::kContext;
    if (!Chance(0.1)) kind = context ? EventKind::kContextDone : EventKind::kGenerationDone;
    if (context && Chance(0.1)) kind = EventKind::kGenerationDone;
    if (Chance(failure)) kind = EventKind::kFailed;
    if (Chance(failure * 0.3)) kind = Chance(0.5) ? EventKind::kCancelled : EventKind::kExpired;
    wire::Event event = testing::Answer(assignment, kind);
    if (kind == EventKind::kFailed) event.error->client_fault = Chance(0.1);
    events_.push_back(event);
    if (Chance(failure)) events_.push_back(event);  // repeated
  }

  void DeliverEvent() {
    if (events_.empty()) return;
    const size_t at = rng_.Below(events_.size());  // in any order
    const wire::Event event = events_[at];
    events_.erase(events_.begin() + static_cast<std::ptrdiff_t>(at));
    if (Chance(0.1)) return;  // lost
    Do(FromInstance{event});
  }

  // What differs from the record in one part of its address changes nothing and is counted.
  void DeliverStale() {
    if (work_.empty()) return;
    wire::Event event =
        testing::Answer(work_[rng_.Below(work_.size())],
                        Chance(0.5) ? EventKind::kGenerationDone : EventKind::kFailed);
    switch (rng_.Below(6)) {
      case 0:
        event.from.attempt = Attempt(event.from.attempt.value + 1000);
        break;
      case 1:
        event.from.controller_epoch = ControllerEpoch(event.from.controller_epoch.value + 1000);
        break;
      case 2:
        event.from.instance += "x";
        break;
      case 3:
        event.from.id.request_id += "x";
        break;
      case 4:
        event.from.instance_epoch = InstanceEpoch(event.from.instance_epoch.value + 1000);
        break;
      default:
        event.from.lease = LeaseNumber(event.from.lease.value + 1000);
    }
    const Ledger::Snapshot before = ledger_->TakeSnapshot();
    const auto dropped = [this] {
      uint64_t sum = 0;
      for (const uint64_t n : ledger_->stats().dropped) sum += n;
      return sum;
    };
    const uint64_t count = dropped();
    const Effects effects = ledger_->Apply(FromInstance{event}, now_ms_);
    if (!effects.empty() || !(before == ledger_->TakeSnapshot())) Fail("a stale event had effects");
    if (dropped() != count + 1) Fail("a stale event was not counted");
  }

  void KillInstance() {
    auto it = instances_.begin();
    std::advance(it, rng_.Below(instances_.size()));
    const Target old = it->second;
    InstanceGone gone{old.instance, old.epoch, Chance(0.6), {}};
    for (int i = 0; i < kIdentities; ++i) {
      if (Chance(0.3)) gone.in_step.push_back({"t", "r" + std::to_string(i)});
    }
    StartInstance(old.instance);
    std::erase_if(work_, [&old](const wire::Assignment& a) {
      return a.to.instance == old.instance && a.to.instance_epoch == old.epoch;
    });
    Do(gone);
  }

  void PassTime(int64_t ms) {
    now_ms_ += ms;
    Do(Tick{});
    for (const auto& [id, record] : ledger_->TakeSnapshot().in_flight) {
      const Entry* entry = ledger_->Find(id);
      const int64_t deadline_ms = record.request.deadline_ms;
      if (entry->pending) continue;
      if (deadline_ms > 0 && now_ms_ >= deadline_ms + limits_.deadline_slack_ms) {
        Fail("past its deadline: " + id.Key());
      }
      const bool running = record.state == RequestState::kContext ||
                           record.state == RequestState::kGeneration ||
                           record.state == RequestState::kFull;
      if (running && record.cancel_requested && now_ms_ >= record.parked_until_ms) {
        Fail("cancelled long ago: " + id.Key());
      }
    }
  }

  // The controller dies: what was not acknowledged may or may not have arrived, in order per chain.
  void Restart() {
    for (auto& [id, chain] : chains_) {
      while (!chain.empty() && Chance(0.5)) {
        if (const auto* write = std::get_if<WriteRecord>(&chain.front())) {
          Carry(id, *write);
        } else if (const auto* end = std::get_if<PublishTerminal>(&chain.front())) {
          // Arrived, but nobody was told.
          if (++terminals_[id] > 1) Fail("two terminal records for " + id.Key());
          results_.push_back({end->record, static_cast<int64_t>(results_.size())});
          chain.clear();
          break;
        } else {
          break;
        }
        chain.pop_front();
      }
    }
    AddStats(ledger_->stats(), &seen_);
    chains_.clear();
    emitted_.clear();
    for (const auto& [key, record] : durable_) emitted_[key] = record;
    ledger_ = std::make_unique<Ledger>(limits_, ControllerEpoch(epoch_));
    for (const auto& [key, record] : durable_) ledger_->Restore(record);
    for (const Stored& stored : results_) {
      Absorb(ledger_->TerminalSeen(stored.record, 0, stored.offset, now_ms_));
    }
    Absorb(ledger_->Resume(ControllerEpoch(++epoch_), now_ms_));
    CheckRebuild();
    // Lives that ended while nobody looked.
    for (const Target& used : ledger_->InstancesInUse()) {
      const auto found = instances_.find(used.instance);
      if (found == instances_.end() || found->second.epoch != used.epoch) {
        Do(InstanceGone{used.instance, used.epoch, false, {}});
      }
    }
    const auto unsettled = inputs_;
    for (const auto& [at, event] : unsettled) Do(event);
  }

  // ---- the end: with a world that behaves, everything ends

  bool Settle() {
    refuse_results_ = false;
    for (int round = 0; round < 400 && why_.empty(); ++round) {
      while (!chains_.empty() && why_.empty()) RunOne();
      if (ledger_->in_flight() == 0 && inputs_.empty()) return true;
      for (int i = 0; i < 10; ++i) Route();
      while (!chains_.empty() && why_.empty()) RunOne();
      while (!work_.empty()) Work(0);
      while (!events_.empty() && why_.empty()) DeliverEvent();
      if (round % 20 == 19) {  // events were lost: only an instance's end frees those requests
        for (const char* name : {"c0", "c1", "g0", "g1", "m0"}) {
          const Target old = instances_[name];
          StartInstance(name);
          Do(InstanceGone{old.instance, old.epoch, false, {}});
        }
      }
      PassTime(500);
    }
    Fail("did not come to an end with " + std::to_string(ledger_->in_flight()) + " in flight");
    return false;
  }

  bool Verdict() {
    for (const auto& [offset, event] : submitted_) {
      const Identity& id = event.request.id;
      if (terminals_[id] != 1) Fail("no terminal record for " + id.Key());
      if (ledger_->FindDone(id) == nullptr) Fail("not done: " + id.Key());
    }
    for (const Stored& stored : results_) {
      const bool dead = stored.record.outcome == wire::Outcome::kDead;
      if (dead && dead_letters_[stored.record.id] == 0) Fail("dead without a dead letter");
    }
    return why_.empty();
  }

  Rng rng_;
  Limits limits_;
  std::unique_ptr<Ledger> ledger_;
  std::string why_;
  int64_t now_ms_ = 1'000'000;
  uint64_t epoch_ = 1;
  uint64_t last_epoch_ = 0;
  int64_t next_offset_ = 0;
  bool refuse_results_ = true;
  std::vector<uint64_t> seen_;  // counters of the lives before the present one
  std::map<std::string, wire::LedgerRequest> emitted_;
  std::map<std::string, wire::LedgerRequest> durable_;
  std::vector<Stored> results_;
  std::map<Identity, int> terminals_;
  std::map<Identity, int> dead_letters_;
  std::map<Identity, std::deque<Action>> chains_;
  std::map<std::pair<std::string, int64_t>, Event> inputs_;  // not settled
  std::map<int64_t, Submitted> submitted_;
  std::map<std::string, Target> instances_;
  std::deque<wire::Assignment> work_;
  std::vector<wire::Event> events_;
};

TEST(LedgerProperty, InvariantsHoldInEveryHistory) {
  if (const char* only = std::getenv("BATON_LEDGER_SEED")) {
    World world(std::strtoull(only, nullptr, 10));
    EXPECT_TRUE(world.Run()) << world.why();
    return;
  }
  std::vector<uint64_t> sums;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    World world(seed);
    ASSERT_TRUE(world.Run()) << "seed=" << seed << ": " << world.why();
    world.AddTo(&sums);
  }
  // Every counter of the ledger moved somewhere, or the histories would prove little.
  for (size_t i = 0; i < sums.size(); ++i) EXPECT_GT(sums[i], 0u) << "counter " << i;
}

}  // namespace
}  // namespace baton::ledger
