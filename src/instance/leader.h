// The leader of an instance: the only rank that talks to Kafka. Reads its slot, feeds the executor,
// answers with events, beats once a second. One thread runs all of it: heartbeats come from the
// loop that does the work, so a loop that hangs is seen (design §5, liveness).
//
// Life: Register() until the controller grants a slot; Serve() until told to stop, fenced
// (kAborted: the slot is another's, exit at once) or the engine or the broker is lost.
#pragma once

#include <atomic>
#include <memory>
#include <unordered_map>

#include "src/base/clock.h"
#include "src/base/result.h"
#include "src/bus/bus.h"
#include "src/engine/executor.h"
#include "src/instance/recent.h"
#include "src/instance/translate.h"
#include "src/model/config.h"
#include "src/text/tokenizer.h"
#include "src/wire/messages.h"
#include "src/wire/topics.h"

namespace baton::instance {

struct LeaderOptions {
  wire::Topics topics;
  // Sent as it stands; `incarnation` and `wall_ms` are filled in.
  wire::Registration registration;
  Nanos heartbeat_interval = std::chrono::seconds(1);
  Nanos register_interval = std::chrono::seconds(1);
  Nanos drain_timeout = std::chrono::seconds(10);
  // Records wait for delivery and none was delivered for so long: the broker is out of reach, the
  // instance exits and its supervisor starts it anew.
  Nanos delivery_timeout = std::chrono::seconds(60);
  // A loop that finds nothing to do sleeps in the consumer for so long at most.
  Nanos idle_wait = std::chrono::milliseconds(20);
};

struct LeaderStats {
  uint64_t assignments = 0;
  uint64_t repeated = 0;          // answered from memory
  uint64_t foreign = 0;           // addressed to another life: dropped
  uint64_t stale_controller = 0;  // from a controller that was replaced: dropped
  uint64_t undecodable = 0;       // dropped
  uint64_t events = 0;
};

// What serves: made by the caller once the grant has named the epoch; outlives Serve().
struct Engine {
  engine::Executor* executor = nullptr;
  const model::Config* model = nullptr;
  const text::Tokenizer* tokenizer = nullptr;
};

// Owns its producer and consumers; the bus and clock outlive it. One owner thread.
class Leader {
 public:
  static Result<std::unique_ptr<Leader>> Create(const LeaderOptions& options, bus::Bus* bus,
                                                Clock* clock);

  // Repeats the registration until a grant arrives. A refusal is kFailedPrecondition with the
  // controller's reason; kCancelled when `stop` is set.
  Result<wire::Grant> Register(const std::atomic<bool>& stop);

  // OK after `stop` and a drain.
  Status Serve(const wire::Grant& grant, const Engine& engine, const std::atomic<bool>& stop);

  // Serve() in pieces, for tests on one thread: Begin once, then turns of the loop. `accept` is
  // false while draining.
  Status Begin(const wire::Grant& grant, const Engine& engine);
  Status Step(bool accept);

  const LeaderStats& stats() const { return stats_; }

 private:
  struct Run {
    wire::Assignment assignment;
    std::vector<int32_t> prompt;
    Answer answer;
    uint64_t next_sequence = 0;  // of token records
  };

  Leader(const LeaderOptions& options, Clock* clock, std::unique_ptr<bus::Producer> producer,
         std::unique_ptr<bus::Consumer> grants, std::unique_ptr<bus::Consumer> slot);

  Status SendRegistration();
  Result<std::optional<wire::Grant>> PollGrant(Nanos timeout);
  Status ReadSlot(Nanos timeout, bool accept);
  Status ReadGrants();
  Status HandleAssignment(wire::Assignment assignment, bool accept);
  void StartRun(wire::Assignment assignment);
  void HandleCancel(const wire::Assignment& assignment);
  void HandleReleaseHandoff(const wire::Assignment& assignment);
  void HandleResponse(const engine::ExecResponse& response);
  void FinishRun(const RunKey& key, wire::Event event);
  Status CheckDelivery() const;
  void Beat(bool draining);
  void SendEvent(const wire::Event& event);
  void SendTokens(Run& run, const engine::ExecResponse& response);
  void Send(const bus::OutRecord& record);

  const LeaderOptions options_;
  Clock* const clock_;
  wire::Registration registration_;
  std::unique_ptr<bus::Producer> producer_;
  std::unique_ptr<bus::Consumer> grants_;  // slot 0
  std::unique_ptr<bus::Consumer> slot_;
  LeaderStats stats_;

  // While serving.
  wire::Grant grant_;
  Engine engine_;
  ControllerEpoch controller_epoch_;  // highest seen
  RecentRuns recent_;
  std::unordered_map<engine::ExecId, Run> running_;
  MonoTime next_beat_;
  int64_t slot_offset_ = 0;

  uint64_t undelivered_ = 0;
  MonoTime last_delivery_;
  Status delivery_error_;  // of a record that must not be lost
};

}  // namespace baton::instance
