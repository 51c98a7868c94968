// Applies the leader's plans on one rank, in order: block tables, steps, transfers, votes. It never
// allocates, frees, admits or drops by itself. One owner thread (the rank's), which makes every
// call; nothing blocks but a backend that computes inside Submit.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "src/backend/backend.h"
#include "src/base/clock.h"
#include "src/base/result.h"
#include "src/engine/plan.h"
#include "src/transfer/transfer.h"

namespace baton::engine {

class RankWorker {
 public:
  // All belong to the caller and outlive the worker; source and sink may be null (no hand-off).
  RankWorker(Rank rank, backend::Backend* backend, transfer::KvSource* source,
             transfer::KvSink* sink, const Clock* clock);

  // Plans come numbered from 1 without a gap. An error means that this rank is lost.
  Status Apply(const Plan& plan);
  // What happened since the last call. An error means that this rank is lost.
  Result<RankReport> Poll();

  // A transfer is open, so Poll must be called every few milliseconds.
  bool transfers_open() const { return transfers_ > 0; }
  Rank rank() const { return rank_; }
  size_t sequences() const { return sequences_.size(); }

 private:
  struct Local {
    std::vector<BlockId> blocks;
    std::optional<PlanNumber> finish_after;
    std::optional<PlanOffer> offer;  // ordered, its plan not executed yet
    std::optional<uint64_t> lease;   // offered and not ended
    std::optional<uint64_t> fetch;   // started and not ended
    bool voted = false;              // kReleased
  };
  struct InFlight {
    PlanNumber plan;
    backend::Ticket ticket = 0;
    uint64_t digest = 0;
    std::optional<backend::StepOutput> output;
  };

  Result<Local*> Find(AdmissionId admission, const Plan& plan);
  Status Release(AdmissionId admission, const Plan& plan);
  void StartFetch(const PlanFetch& fetch, Local* local);
  Status SubmitRows(const Plan& plan);
  void Abort(const PlanAbort& abort, Local* local);
  Status PollSteps(RankReport* report);
  void PollSource(RankReport* report);
  void PollSink(RankReport* report);
  void MakeOffer(AdmissionId admission, Local* local, RankReport* report);
  void CastReleases(RankReport* report);
  // Every plan up to this one was executed and reported.
  PlanNumber executed() const;
  uint64_t Digest(const Plan& plan, const PlanRow& row, std::span<const BlockId> blocks) const;

  const Rank rank_;
  backend::Backend* const backend_;
  transfer::KvSource* const source_;
  transfer::KvSink* const sink_;
  const Clock* const clock_;
  std::map<AdmissionId, Local> sequences_;
  std::map<uint64_t, AdmissionId> fetches_;  // by the sink's number
  std::map<uint64_t, AdmissionId> leases_;
  std::deque<InFlight> in_flight_;
  std::vector<Vote> votes_;  // for the next report
  size_t transfers_ = 0;
  PlanNumber applied_;
  uint64_t digest_ = 0;
};

}  // namespace baton::engine
