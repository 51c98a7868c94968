// A small cluster in one thread over the simulated bus: one controller, scripted instances, one
// client. Time moves only by Step(). For tests.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "src/base/clock.h"
#include "src/bus/sim/sim_bus.h"
#include "src/client/client.h"
#include "src/controller/controller.h"
#include "src/wire/messages.h"
#include "src/wire/topics.h"

namespace baton::controller::testing {

// An instance without an engine: does what the leader of an instance does on the bus, and answers
// runs as `behaviour` says.
class Actor {
 public:
  Actor(bus::Bus* bus, Clock* clock, const wire::Topics& topics, const std::string& name,
        wire::Role role);

  void Step();
  void Answer(const wire::Assignment& run, wire::EventKind kind);
  void Send(const wire::Event& event);
  void Beat();

  wire::Registration registration;
  // Called for each new run; by default it is answered well at once.
  std::function<void(Actor&, const wire::Assignment&)> behaviour;
  bool beating = true;
  bool draining = false;
  bool registers = true;
  bool moving = true;  // progress
  std::vector<Identity> in_step;
  std::optional<wire::Grant> grant;
  std::optional<wire::Grant> refusal;
  std::vector<wire::Assignment> runs;  // every one, repeats included
  std::vector<wire::Assignment> cancels;
  std::vector<wire::Assignment> releases;
  ControllerEpoch controller_epoch;
  size_t held = 0;      // unanswered now
  size_t held_max = 0;  // ever
  size_t runs_begun = 0;

 private:
  using RunKey = std::tuple<Identity, uint32_t, wire::Phase>;
  void OnAssignment(const wire::Assignment& assignment);

  Clock* const clock_;
  const wire::Topics topics_;
  std::unique_ptr<bus::Producer> producer_;
  std::unique_ptr<bus::Consumer> grants_;
  std::unique_ptr<bus::Consumer> slot_;
  std::map<RunKey, std::optional<wire::Event>> latest_;
  MonoTime next_beat_;
  MonoTime next_register_;
  uint64_t progress_ = 0;
};

class Cluster {
 public:
  explicit Cluster(Options options = Options(), bus::SimOptions sim = bus::SimOptions());

  Actor& Add(const std::string& name, wire::Role role = wire::Role::kMixed);
  void Remove(const std::string& name);  // the process is gone, without a word
  // Turns until `until` holds; false after `steps_max` of one millisecond each.
  bool Run(const std::function<bool()>& until, int steps_max = 20'000);
  void Step();
  void Pass(Nanos time);
  // The controller's process is replaced; what it had not written is lost.
  void RestartController();
  bool AllReady();  // every actor has a grant

  wire::Request Request(const std::string& id) const;
  void Submit(const wire::Request& request);
  // Records of a topic, oldest first.
  std::vector<bus::Record> ReadAll(const std::string& topic, int32_t partitions);
  std::vector<wire::ResultRecord> Of(const std::string& id,
                                     wire::ResultKind kind = wire::ResultKind::kTerminal) const;

  ManualClock clock;
  std::unique_ptr<bus::SimBus> bus;
  wire::Topics topics;
  Options options;
  std::unique_ptr<Controller> controller;
  std::map<std::string, std::unique_ptr<Actor>> actors;
  std::unique_ptr<client::Client> client;
  std::vector<wire::ResultRecord> results;
  Status failed;  // of the controller
};

}  // namespace baton::controller::testing
