// The leader's loop without its thread: requests in, one Turn at a time, responses out. Everything
// it knows of the world comes through RankGroup and the time it is told, so tests and the simulator
// drive it step by step. One owner thread.
//
//   reports of ranks -> completed steps -> commits -> timers -> next plan
//
// Errors end one request. What loses a rank or the backend ends the engine: health() is not OK from
// then on and every request gets an error.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "src/engine/executor.h"
#include "src/engine/rank_group.h"
#include "src/engine/request_check.h"
#include "src/engine/scheduler.h"
#include "src/engine/stop.h"
#include "src/engine/votes.h"

namespace baton::engine {

struct EngineParts {
  ExecOptions options;
  RankGroup* ranks = nullptr;  // outlives the engine
  RequestLimits request_limits;
  backend::Limits step_limits;
  // Names this instance in descriptors.
  std::string instance;
  InstanceEpoch instance_epoch;
  wire::Layout layout;
  // Makes a decoder for one request; empty: no text.
  std::function<std::unique_ptr<TokenDecoder>()> make_decoder;
};

class EngineCore {
 public:
  using Emit = std::function<void(ExecResponse)>;
  EngineCore(EngineParts parts, Emit emit);

  // The request passed CheckRequest. `id` is never reused and becomes the admission id.
  void Add(ExecId id, ExecRequest request, MonoTime now);
  // Unknown or finished: nothing happens.
  void Cancel(ExecId id, MonoTime now);
  void CancelAll(MonoTime now);
  void WithdrawLease(uint64_t lease, const std::string& reason);
  void WithdrawLeases(const std::string& reason);

  // One pass. True when anything moved, so that another pass may find more.
  bool Turn(MonoTime now);
  // Ends everything with an error; for a caller that knows the engine is lost.
  void Lose(const Status& status, MonoTime now);

  const Status& health() const { return health_; }
  // Nothing is waiting, running, leased or unreleased.
  bool idle() const { return requests_.empty() && scheduler_.empty() && steps_.empty(); }
  size_t requests() const { return requests_.size(); }
  bool step_running() const { return scheduler_.steps_in_flight() > 0; }
  uint32_t fetches_open() const { return fetches_; }
  ExecStats stats() const;
  const Scheduler& scheduler() const { return scheduler_; }
  const VoteTable& votes() const { return votes_; }

 private:
  struct Request {
    ExecRequest spec;  // the prompt stays in the sequence alone
    StopChecker stop;
    ExecResponse response;  // grows until it is emitted
    uint32_t generated = 0;
    bool offering = false;  // a context request whose lease is not confirmed yet
    MonoTime enqueued;
    MonoTime admitted = MonoTime::Max();
    MonoTime received = MonoTime::Max();
    MonoTime first_token = MonoTime::Max();
  };
  // A finished admission whose blocks wait for the ranks' votes.
  struct Ending {
    PlanNumber last_plan;
    uint32_t leases_left = 0;  // ranks whose lease has not ended
    MonoTime lease_cap = MonoTime::Max();
  };
  // A plan with rows that not every rank has reported.
  struct Step {
    PlanNumber plan;
    MonoTime sent;
    std::vector<std::pair<Rank, uint64_t>> digests;
    backend::StepOutput output;
  };

  bool TakeReports(MonoTime now);
  bool TakeStep(const StepReport& report, Rank rank);
  void TakeLease(const LeaseReport& report);
  bool CompleteSteps(MonoTime now);
  void OnToken(AdmissionId admission, int32_t token,
               const std::optional<wire::PositionLogprobs>& logprobs, MonoTime now);
  bool OnCommits(MonoTime now);
  void OnReceived(const Commit& commit, MonoTime now);
  void OnOffered(const Commit& commit, MonoTime now);
  void StartOffer(AdmissionId admission, Request* request, MonoTime now);
  bool RunTimers(MonoTime now);
  void ArmVotes(MonoTime now);
  bool SendPlans(MonoTime now);
  void NotePlan(const Plan& plan, MonoTime now);

  // Emits the final response and ends the request; blocks stay until the commit.
  void End(AdmissionId admission, wire::FinishReason reason, MonoTime now,
           const std::string& abort_reason = "");
  void Fail(AdmissionId admission, Status status, MonoTime now);
  void FinishSequence(AdmissionId admission, const std::string& abort_reason);
  void AbortLease(AdmissionId admission, const std::string& reason);
  void EmitFinal(Request* request, MonoTime now);
  wire::HandoffDescriptor MakeDescriptor(AdmissionId admission, const Request& request) const;
  std::string NameOf(AdmissionId admission) const;
  PlanNumber executed_plan() const;

  const EngineParts parts_;
  const Emit emit_;
  Scheduler scheduler_;
  VoteTable votes_;
  Status health_;
  std::map<AdmissionId, Request> requests_;
  std::map<AdmissionId, Ending> endings_;
  std::set<std::pair<MonoTime, AdmissionId>> deadlines_;
  std::deque<Step> steps_;
  uint32_t fetches_ = 0;
  uint32_t leases_ = 0;
  ExecStats totals_;  // the counters alone
};

}  // namespace baton::engine
