#include "src/engine/rank_worker.h"

#include <fmt/format.h>
#include <xxhash.h>

#include "src/base/fault.h"

namespace baton::engine {

RankWorker::RankWorker(Rank rank, backend::Backend* backend, transfer::KvSource* source,
                       transfer::KvSink* sink, const Clock* clock)
    : rank_(rank), backend_(backend), source_(source), sink_(sink), clock_(clock) {}

Status RankWorker::Apply(const Plan& plan) {
  if (plan.number.value != applied_.value + 1) {
    return InternalError(fmt::format("rank {}: plan {} came after plan {}", rank_.value,
                                     plan.number.value, applied_.value));
  }
  applied_ = plan.number;
  for (const AdmissionId admission : plan.releases) {
    BATON_RETURN_IF_ERROR(Release(admission, plan));
  }
  for (const backend::SequenceSpec& spec : plan.admissions) {
    if (!sequences_.try_emplace(spec.admission).second) {
      return InternalError(fmt::format("rank {}: plan {} admits {} again", rank_.value,
                                       plan.number.value, spec.admission.value));
    }
    backend_->OpenSequence(spec);
  }
  for (const PlanBlocks& more : plan.blocks) {
    ASSIGN_OR_RETURN(Local * local, Find(more.admission, plan));
    local->blocks.insert(local->blocks.end(), more.blocks.begin(), more.blocks.end());
  }
  for (const PlanFetch& fetch : plan.fetches) {
    ASSIGN_OR_RETURN(Local * local, Find(fetch.admission, plan));
    StartFetch(fetch, local);
  }
  if (!plan.rows.empty()) BATON_RETURN_IF_ERROR(SubmitRows(plan));
  for (const PlanOffer& offer : plan.offers) {
    ASSIGN_OR_RETURN(Local * local, Find(offer.admission, plan));
    local->offer = offer;
    ++transfers_;
  }
  for (const PlanAbort& abort : plan.aborts) {
    ASSIGN_OR_RETURN(Local * local, Find(abort.admission, plan));
    Abort(abort, local);
  }
  for (const PlanFinish& finish : plan.finishes) {
    ASSIGN_OR_RETURN(Local * local, Find(finish.admission, plan));
    local->finish_after = finish.last_plan;
  }
  return OkStatus();
}

Result<RankWorker::Local*> RankWorker::Find(AdmissionId admission, const Plan& plan) {
  const auto it = sequences_.find(admission);
  if (it == sequences_.end()) {
    return InternalError(fmt::format("rank {}: plan {} names admission {}, which is not here",
                                     rank_.value, plan.number.value, admission.value));
  }
  return &it->second;
}

Status RankWorker::Release(AdmissionId admission, const Plan& plan) {
  ASSIGN_OR_RETURN(const Local* local, Find(admission, plan));
  if (!local->voted) {
    return InternalError(
        fmt::format("rank {}: plan {} releases admission {} before this rank "
                    "voted for it",
                    rank_.value, plan.number.value, admission.value));
  }
  backend_->CloseSequence(admission);
  sequences_.erase(admission);
  return OkStatus();
}

void RankWorker::StartFetch(const PlanFetch& fetch, Local* local) {
  Status status = FailedPreconditionError("no transport on this rank");
  if (sink_ != nullptr) {
    transfer::FetchSpec spec;
    spec.descriptor = fetch.descriptor;
    spec.blocks = local->blocks;
    spec.skip_blocks = fetch.skip_blocks;
    spec.receiver = fetch.receiver;
    spec.deadline = clock_->Now() + fetch.time_left;
    const Result<uint64_t> started = sink_->Start(spec);
    status = started.status();
    if (started.ok()) {
      local->fetch = *started;
      fetches_[*started] = fetch.admission;
      ++transfers_;
      return;
    }
  }
  votes_.push_back({rank_, fetch.admission, VoteKind::kReceived, status});
}

Status RankWorker::SubmitRows(const Plan& plan) {
  if (MAYBE_FAULT("engine.step")) return UnavailableError("fault point engine.step");
  backend::StepInput step;
  step.step = plan.step;
  for (const PlanRow& row : plan.rows) {
    ASSIGN_OR_RETURN(const Local* local, Find(row.admission, plan));
    const size_t end = row.position + row.tokens.size();
    const size_t block_tokens = backend_->kv_shape().block_tokens;
    const size_t blocks = (end + block_tokens - 1) / block_tokens;
    if (blocks > local->blocks.size()) {
      return InternalError(fmt::format(
          "rank {}: plan {} computes position {} of admission {}, whose {} blocks end before it",
          rank_.value, plan.number.value, end - 1, row.admission.value, local->blocks.size()));
    }
    backend::StepRow out;
    out.admission = row.admission;
    out.position = row.position;
    out.tokens = row.tokens;
    out.input_from_row = row.input_from_row;
    out.sample = row.sample;
    out.blocks.assign(local->blocks.begin(),
                      local->blocks.begin() + static_cast<std::ptrdiff_t>(blocks));
    digest_ = Digest(plan, row, out.blocks);
    step.rows.push_back(std::move(out));
  }
  ASSIGN_OR_RETURN(const backend::Ticket ticket, backend_->Submit(step));
  in_flight_.push_back({plan.number, ticket, digest_, std::nullopt});
  return OkStatus();
}

void RankWorker::Abort(const PlanAbort& abort, Local* local) {
  if (local->offer.has_value()) {
    local->offer.reset();
    --transfers_;
    votes_.push_back(
        {rank_, abort.admission, VoteKind::kOffered, CancelledError("aborted: " + abort.reason)});
  }
  if (local->lease.has_value()) source_->Withdraw(*local->lease, abort.reason);
  if (local->fetch.has_value()) sink_->Abort(*local->fetch, abort.reason);
}

Result<RankReport> RankWorker::Poll() {
  RankReport report;
  report.rank = rank_;
  BATON_RETURN_IF_ERROR(PollSteps(&report));
  if (source_ != nullptr) PollSource(&report);
  if (sink_ != nullptr) PollSink(&report);
  if (transfers_ > 0) {
    for (auto& [admission, local] : sequences_) MakeOffer(admission, &local, &report);
  }
  CastReleases(&report);
  report.votes.insert(report.votes.begin(), votes_.begin(), votes_.end());
  votes_.clear();
  return report;
}

// The host may learn of steps in any order; they are reported in the order of plans.
Status RankWorker::PollSteps(RankReport* report) {
  for (InFlight& step : in_flight_) {
    if (step.output.has_value()) continue;
    auto polled = backend_->Poll(step.ticket);
    if (!polled.ok()) return polled.status().WithContext(fmt::format("rank {}", rank_.value));
    step.output = std::move(*polled);
  }
  while (!in_flight_.empty() && in_flight_.front().output.has_value()) {
    InFlight& step = in_flight_.front();
    report->steps.push_back({step.plan, step.digest, std::move(*step.output)});
    in_flight_.pop_front();
  }
  return OkStatus();
}

void RankWorker::PollSource(RankReport* report) {
  static constexpr const char* kEnds[] = {"done", "aborted", "nobody asked in time",
                                          "transfer made no progress", "withdrawn"};
  for (const transfer::LeaseEnded& ended : source_->Poll()) {
    const auto it = leases_.find(ended.lease);
    if (it == leases_.end()) continue;
    sequences_.at(it->second).lease.reset();
    --transfers_;
    std::string how = kEnds[static_cast<size_t>(ended.end)];
    if (!ended.reason.empty()) how.append(": ").append(ended.reason);
    report->leases.push_back({it->second, std::move(how)});
    leases_.erase(it);
  }
}

void RankWorker::PollSink(RankReport* report) {
  for (const transfer::FetchEnded& ended : sink_->Poll()) {
    const auto it = fetches_.find(ended.fetch);
    if (it == fetches_.end()) continue;
    sequences_.at(it->second).fetch.reset();
    --transfers_;
    report->fetched_bytes += ended.bytes;
    report->votes.push_back({rank_, it->second, VoteKind::kReceived, ended.status});
    fetches_.erase(it);
  }
}

void RankWorker::MakeOffer(AdmissionId admission, Local* local, RankReport* report) {
  if (!local->offer.has_value() || local->offer->after > executed()) return;
  const PlanOffer order = *std::exchange(local->offer, std::nullopt);
  Status status = FailedPreconditionError("no transport on this rank");
  if (source_ != nullptr) {
    const MonoTime now = clock_->Now();
    transfer::OfferSpec spec;
    spec.lease = order.lease;
    spec.attempt = order.attempt;
    const size_t block_tokens = backend_->kv_shape().block_tokens;
    const size_t blocks = (order.tokens + block_tokens - 1) / block_tokens;
    spec.blocks.assign(local->blocks.begin(),
                       local->blocks.begin() + static_cast<std::ptrdiff_t>(blocks));
    spec.tokens = order.tokens;
    spec.offer_deadline = now + order.offer_timeout;
    spec.transfer_timeout = order.transfer_timeout;
    spec.request_deadline = now + order.request_left;
    status = source_->Offer(spec);
  }
  if (status.ok()) {
    local->lease = order.lease;
    leases_[order.lease] = admission;
  } else {
    --transfers_;
  }
  report->votes.push_back({rank_, admission, VoteKind::kOffered, status});
}

void RankWorker::CastReleases(RankReport* report) {
  const PlanNumber done = executed();
  for (auto& [admission, local] : sequences_) {
    if (local.voted || !local.finish_after.has_value() || *local.finish_after > done) continue;
    if (local.offer.has_value() || local.lease.has_value() || local.fetch.has_value()) continue;
    local.voted = true;
    report->votes.push_back({rank_, admission, VoteKind::kReleased, OkStatus()});
  }
}

PlanNumber RankWorker::executed() const {
  return in_flight_.empty() ? applied_ : PlanNumber(in_flight_.front().plan.value - 1);
}

uint64_t RankWorker::Digest(const Plan& plan, const PlanRow& row,
                            std::span<const BlockId> blocks) const {
  const uint64_t words[] = {
      digest_,      plan.number.value, row.admission.value,
      row.position, row.tokens.size(), XXH3_64bits(blocks.data(), blocks.size_bytes())};
  return XXH3_64bits(words, sizeof(words));
}

}  // namespace baton::engine
