// Decides what runs: pure (no thread, no clock, no I/O), so that a seed repeats every decision.
// Events in, numbered plans out. One owner, the leader's engine thread.
//
// Admission is in order of arrival and reserves the most blocks that a request can ever need, so
// whatever was let in can finish, and with it whatever waits behind it. Blocks are taken only when
// a step needs them: until then cached ones stay findable. A step has a token budget: decodes
// first, then chunks of prompts, oldest first; no more sequences run than fit into one step.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "src/base/clock.h"
#include "src/base/result.h"
#include "src/engine/plan.h"
#include "src/engine/sequence.h"
#include "src/kv/prefix_cache.h"

namespace baton::engine {

struct SchedulerOptions {
  uint32_t running_max = 64;
  uint32_t step_tokens_max = 512;
  uint32_t step_rows_max = 64;
  Nanos fetch_timeout =
      std::chrono::seconds(30);  // a fetch ends by then, whatever the request says
};

// A token that a completed step drew for a sequence that still wants it. -1: no usable logit.
struct DrawnToken {
  AdmissionId admission;
  int32_t token = -1;
  std::optional<wire::PositionLogprobs> logprobs;
};

class Scheduler {
 public:
  Scheduler(const SchedulerOptions& options, const kv::PrefixCacheOptions& cache);

  // The most blocks that `positions` of KV need.
  uint32_t BlocksFor(uint32_t positions) const;

  // `sequence` is kWaiting; worst_blocks is at most the pool.
  void Add(Sequence sequence);
  // The fetch of a kFetching sequence ended well on every rank: indexes it and lets it run.
  void Received(AdmissionId admission);
  // Adds an accepted token to the sequence.
  void Accept(AdmissionId admission, int32_t token);
  // Ends a sequence. True: ranks know it; its finish goes into the next plan and its blocks stay
  // until Release. False: it was only waiting and is gone. A reason aborts its transfers.
  bool Finish(AdmissionId admission, const std::string& abort_reason);
  // Aborts transfers of a finishing sequence.
  void Abort(AdmissionId admission, const std::string& reason);
  // Orders an offer of the prompt's KV and finishes the sequence. `after` is filled in here.
  void Offer(PlanOffer offer);
  // Every rank voted: blocks go back, the release goes into the next plan.
  void Release(AdmissionId admission);

  // The next plan, or nothing when there is nothing to tell. `with_rows` false: no step in it.
  std::optional<Plan> Next(MonoTime now, bool with_rows);
  // A step was executed on every rank; steps come in order. Tokens of sequences that finished
  // meanwhile, or past their end, are dropped and counted. kInternal: the output is not what the
  // step asked for.
  Result<std::vector<DrawnToken>> Complete(const backend::StepOutput& output);

  const Sequence* Find(AdmissionId admission) const;
  const kv::PrefixCache& cache() const { return cache_; }
  uint32_t running() const { return active_; }
  uint32_t waiting() const { return static_cast<uint32_t>(waiting_.size()); }
  bool empty() const { return sequences_.empty() && releases_.empty(); }
  // Steps emitted and not completed.
  size_t steps_in_flight() const { return steps_.size(); }
  // Of the oldest step in flight.
  std::vector<AdmissionId> InStep() const;
  uint64_t dropped_tokens() const { return dropped_tokens_; }
  PlanNumber last_plan() const { return PlanNumber(next_plan_ - 1); }

 private:
  struct RowRecord {
    AdmissionId admission;
    uint32_t end = 0;  // position behind the row
    bool sample = false;
  };
  struct StepRecord {
    uint64_t step = 0;
    std::vector<RowRecord> rows;
  };

  void Admit(MonoTime now, Plan* plan);
  bool TryAdmit(Sequence* sequence, MonoTime now, Plan* plan);
  void AddRows(Plan* plan);
  bool AddRow(Sequence* sequence, uint32_t tokens_max, Plan* plan, StepRecord* record);
  void Grow(Sequence* sequence, uint32_t positions, Plan* plan);
  void IndexExecuted(Sequence* sequence);
  Sequence* Get(AdmissionId admission);

  const SchedulerOptions options_;
  const uint32_t active_max_;
  kv::PrefixCache cache_;
  std::map<AdmissionId, Sequence> sequences_;
  std::deque<AdmissionId> waiting_;
  std::vector<AdmissionId> running_;  // kRunning, in the order in which they started
  uint32_t active_ = 0;               // kFetching and kRunning
  uint32_t reserved_ = 0;             // blocks promised and not yet taken
  std::deque<StepRecord> steps_;
  uint64_t next_step_ = 1;
  uint64_t next_plan_ = 1;
  uint64_t dropped_tokens_ = 0;
  // For the next plan.
  std::vector<AdmissionId> releases_;
  std::vector<PlanOffer> offers_;
  std::vector<PlanAbort> aborts_;
  std::vector<PlanFinish> finishes_;
};

}  // namespace baton::engine
