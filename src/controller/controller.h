// The one process that decides: takes requests in, records them, hands them to instances, publishes
// what became of them. This class is one controller's logic over any Bus; election and fencing of
// several are outside.
//
// One thread owns it, its consumers and its producer. Step() never waits, so tests and the
// simulator drive it as they like; Run() adds the waiting. Everything that was decided is in the
// ledger topic before it leaves (src/ledger), so a controller that ends at any point, with an error
// or without, is replaced by a new one that reads it back. That is also the answer to every error
// of the bus that does not concern one record: Step() returns it, and the caller makes a new
// Controller.
//
// Threads: a reader thread per consumer would wake at once but needs queues between them and makes
// Step() nondeterministic; instead Run() polls all consumers in turn and, when nothing was found,
// sleeps inside the handle from which the next thing is expected (acknowledgements, then events,
// then requests) for at most `idle_wait`. What comes elsewhere waits that long at worst, 1 ms; the
// README has the measured cost.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "src/base/clock.h"
#include "src/base/result.h"
#include "src/base/rng.h"
#include "src/bus/bus.h"
#include "src/controller/chains.h"
#include "src/controller/copies.h"
#include "src/controller/instances.h"
#include "src/controller/positions.h"
#include "src/controller/reader.h"
#include "src/controller/recovery.h"
#include "src/controller/routing.h"
#include "src/ledger/ledger.h"
#include "src/wire/topics.h"

namespace baton::controller {

struct Options {
  wire::Topics topics;
  ledger::Limits ledger;
  LivenessOptions liveness;
  RouteOptions route;
  PairingCheck check_pairing;             // transfer::CheckPairing; empty: everything pairs
  std::vector<std::string> reply_topics;  // where clients may have copies sent
  // Bytes of assignments that one slot may hold: the embedded cluster drops data past 5 MiB.
  uint64_t slot_bytes_max = 2u << 20;
  // Share of the bound in flight at which intake pauses and resumes: pausing empties the prefetch
  // queue, so not around one value.
  size_t pause_percent = 100;
  size_t resume_percent = 70;
  size_t inputs_per_step = 256;
  Nanos idle_wait = std::chrono::milliseconds(1);
  Nanos tick_interval = std::chrono::milliseconds(10);
  Nanos positions_interval = std::chrono::milliseconds(200);
  Nanos stats_interval = std::chrono::seconds(10);
  Nanos drain_timeout = std::chrono::seconds(5);
  std::string host;   // for the claim
  uint64_t seed = 0;  // of seeds given to requests; 0: from the operating system
};

struct Stats {
  uint64_t requests = 0;      // records read from the request topics
  uint64_t dead_letters = 0;  // records refused before they were requests, and quarantines
  uint64_t events = 0;
  uint64_t heartbeats = 0;
  uint64_t stale_heartbeats = 0;
  uint64_t controls = 0;
  uint64_t grants = 0;
  uint64_t refusals = 0;
  uint64_t deaths = 0;
  uint64_t results = 0;
  uint64_t copies = 0;
  uint64_t lost_replies = 0;  // copies and conflicts that could not be written
  uint64_t pauses = 0;
  uint64_t losses = 0;  // times that a consumer's offset was gone
  uint64_t cut_offs = 0;
  friend bool operator==(const Stats&, const Stats&) = default;
};

class Controller {
 public:
  // The topics must exist. Reads nothing yet.
  static Result<std::unique_ptr<Controller>> Create(const Options& options, bus::Bus* bus,
                                                    Clock* clock);

  // One turn without waiting. True when something was done. An error ends this controller's life.
  Result<bool> Step() { return Turn(Nanos::zero()); }
  // Until `stop`; then what is under way to the broker is flushed. kUnavailable and the like: make
  // a new controller.
  Status Run(const std::atomic<bool>& stop);

  // Recovery is over; requests are taken in.
  bool ready() const { return ready_; }
  bool intake_paused() const { return paused_; }
  const Stats& stats() const { return stats_; }
  const ledger::Ledger& ledger() const { return *ledger_; }
  const Instances& instances() const { return *instances_; }
  size_t unacknowledged() const { return outstanding_ + backlog_.size(); }
  std::string StatsLine() const;

 private:
  enum class AckKind { kRecord, kTerminal, kReply, kAssignment, kDead, kGrant, kOther };
  struct Ack {
    AckKind kind = AckKind::kOther;
    Identity id;
    wire::Address to;  // assignments
    wire::Phase phase = wire::Phase::kFull;
    std::string what;       // for error texts: topic and key
    ledger::Source settle;  // dead letters
    bus::Delivery delivery;
    std::optional<wire::Grant> grant;
  };
  struct Waiting {
    bus::OutRecord record;
    Ack ack;
  };

  Controller(const Options& options, bus::Bus* bus, Clock* clock,
             std::unique_ptr<bus::Producer> producer, std::unique_ptr<Copies> copies,
             int32_t slots);

  Result<bool> Turn(Nanos wait);
  Status FinishRecovery();
  Status Wait(Nanos wait);
  Status EndTurn();
  void Apply(const ledger::Event& event);
  void Absorb(ledger::Effects effects);
  int64_t WallMs() const { return clock_->WallNow().ms; }

  // inputs.cc
  Result<bool> ReadInputs();
  Result<bool> ReadIntake();
  Status OnRequest(const bus::Record& record);
  std::optional<wire::ErrorInfo> WhyRefused(const wire::Request& request) const;
  void OnEvent(const bus::Record& record);
  void OnInstanceRecord(const bus::Record& record);
  Status OnRegistration(const wire::Registration& registration);
  void OnHeartbeat(const wire::Heartbeat& beat);
  void OnControl(const bus::Record& record);
  Status SetIntake();

  // outputs.cc
  void Send(bus::OutRecord record, Ack ack);
  void Produce(bus::OutRecord record, Ack ack);
  void SendBacklog();
  bool RunAcks();
  void OnAck(const Ack& ack);
  void OnRecordAck(const Ack& ack);
  bool StartAction(const Identity& id, const ledger::Action& action);
  bool Start(const Identity& id, const ledger::WriteRecord& action);
  bool Start(const Identity& id, const ledger::WriteTombstone& action);
  bool Start(const Identity& id, const ledger::SendAssignment& action);
  bool Start(const Identity& id, const ledger::PublishTerminal& action);
  bool Start(const Identity& id, const ledger::PublishCopy& action);
  bool Start(const Identity& id, const ledger::PublishConflict& action);
  bool Start(const Identity& id, const ledger::WriteDeadLetter& action);
  bool Start(const Identity& id, const ledger::Settle& action);
  bool Start(const Identity& id, const ledger::SettleResult& action);
  void SendReply(const Identity& id, const std::string& topic, const wire::ResultRecord& record);
  void BuryRecord(const bus::Record& record, const Status& why, bool settle);
  void SendDeadLetter(wire::DeadLetter letter, Ack ack);
  void WriteInstance(const wire::LedgerInstance& record, std::optional<wire::Grant> grant);
  void WritePositions();

  // assign.cc
  void Route();
  void RouteNeed(ledger::Need need, std::vector<InstanceView>* views);
  Ask AskFor(const ledger::Entry& entry) const;
  void Tick();
  void JudgeInstances(MonoTime now);
  void LogStats(MonoTime now);

  const Options options_;
  bus::Bus* const bus_;
  Clock* const clock_;
  const std::string uuid_;
  Rng rng_;
  std::unique_ptr<bus::Producer> producer_;
  std::unique_ptr<Copies> copies_;
  std::unique_ptr<ledger::Ledger> ledger_;
  std::unique_ptr<Instances> instances_;
  Positions inputs_;
  Positions results_;
  Chains chains_;
  std::unique_ptr<Recovery> recovery_;
  std::vector<Reader> intake_;  // by wire::Priority
  std::optional<Reader> events_;
  std::optional<Reader> registrations_;
  std::optional<Reader> control_;

  bool ready_ = false;
  bool paused_ = false;
  Status fatal_;
  std::deque<Ack> acks_;         // came in during Poll(); handled outside of it
  std::deque<Waiting> backlog_;  // the producer's queue was full
  size_t outstanding_ = 0;
  uint64_t intake_turn_ = 0;
  uint64_t route_turn_ = 0;
  std::unordered_map<std::string, std::string> kept_;  // instance: identity key that runs alone
  MonoTime next_tick_;
  MonoTime next_positions_;
  MonoTime next_stats_;
  // Proof that the bus carries our own words back, without which nobody is judged.
  MonoTime next_probe_;
  std::optional<MonoTime> probe_sent_;
  MonoTime probe_seen_;
  bool cut_off_ = false;
  Stats stats_;
  Stats logged_;
};

}  // namespace baton::controller
