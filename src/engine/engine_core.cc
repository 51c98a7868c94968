#include "src/engine/engine_core.h"

#include <fmt/format.h>

#include <algorithm>

#include "src/base/check.h"
#include "src/base/log.h"
#include "src/kv/block_hash.h"

namespace baton::engine {
namespace {

// A lease that makes progress may outlive its transfer_timeout, but not this many of them.
constexpr int kTransferTimeoutsMax = 10;

std::string CacheModel(const wire::Layout& layout) {
  return fmt::format("{}|{}|{}|{}", layout.weights_hash, layout.kv_dtype, layout.rope,
                     layout.block_tokens);
}

SchedulerOptions MakeSchedulerOptions(const EngineParts& parts) {
  SchedulerOptions options;
  options.running_max = parts.options.running_max;
  options.step_tokens_max = std::min(parts.options.step_tokens_max, parts.step_limits.tokens_max);
  options.step_rows_max = parts.step_limits.rows_max;
  options.fetch_timeout = parts.options.offer_timeout + parts.options.transfer_timeout;
  return options;
}

kv::PrefixCacheOptions MakeCacheOptions(const EngineParts& parts) {
  kv::PrefixCacheOptions options;
  options.blocks = parts.request_limits.blocks;
  options.block_tokens = parts.request_limits.block_tokens;
  options.model = CacheModel(parts.layout);
  options.enabled = parts.options.prefix_cache;
  return options;
}

double Ms(MonoTime from, MonoTime to) {
  if (from == MonoTime::Max() || to < from) return 0;
  return std::chrono::duration<double, std::milli>(to - from).count();
}

}  // namespace

EngineCore::EngineCore(EngineParts parts, Emit emit)
    : parts_(std::move(parts)),
      emit_(std::move(emit)),
      scheduler_(MakeSchedulerOptions(parts_), MakeCacheOptions(parts_)),
      votes_(parts_.ranks->size(), parts_.options.vote_deadline) {}

void EngineCore::Add(ExecId id, ExecRequest spec, MonoTime now) {
  const AdmissionId admission(id);
  Sequence sequence = MakeSequence(admission, spec, parts_.request_limits);
  sequence.receiver =
      fmt::format("{}/{}/{}", parts_.instance, parts_.instance_epoch.value, admission.value);
  StopChecker stop(MakeStopSpec(spec, parts_.request_limits),
                   parts_.make_decoder ? parts_.make_decoder() : nullptr);
  spec.prompt.clear();
  if (spec.deadline != MonoTime::Max()) deadlines_.emplace(spec.deadline, admission);
  Request request{.spec = std::move(spec), .stop = std::move(stop)};
  request.response.id = id;
  request.response.prompt_tokens = sequence.prompt_tokens;
  request.enqueued = now;
  requests_.emplace(admission, std::move(request));
  scheduler_.Add(std::move(sequence));
}

void EngineCore::Cancel(ExecId id, MonoTime now) {
  if (!requests_.contains(AdmissionId(id))) return;
  End(AdmissionId(id), wire::FinishReason::kCancelled, now, "cancelled");
}

void EngineCore::CancelAll(MonoTime now) {
  while (!requests_.empty()) Cancel(requests_.begin()->first.value, now);
}

void EngineCore::WithdrawLease(uint64_t lease, const std::string& reason) {
  AbortLease(AdmissionId(lease), reason);
}

void EngineCore::WithdrawLeases(const std::string& reason) {
  for (const auto& [admission, ending] : endings_) AbortLease(admission, reason);
}

bool EngineCore::Turn(MonoTime now) {
  if (!health_.ok()) return false;
  bool moved = TakeReports(now);
  if (health_.ok()) moved |= CompleteSteps(now);
  if (health_.ok()) moved |= OnCommits(now);
  if (health_.ok()) moved |= RunTimers(now);
  if (health_.ok()) moved |= SendPlans(now);
  return moved;
}

// ------------------------------------------------------------------------------- from ranks

bool EngineCore::TakeReports(MonoTime now) {
  auto reports = parts_.ranks->Poll();
  if (!reports.ok()) {
    Lose(reports.status(), now);
    return true;
  }
  bool moved = false;
  for (RankReport& report : *reports) {
    moved |= !report.steps.empty() || !report.votes.empty() || !report.leases.empty();
    for (StepReport& step : report.steps) {
      if (!TakeStep(step, report.rank)) {
        Lose(health_, now);
        return true;
      }
    }
    for (const LeaseReport& lease : report.leases) TakeLease(lease);
    for (const Vote& vote : report.votes) votes_.Cast(vote);
  }
  return moved;
}

// False when ranks diverged: health_ says how.
bool EngineCore::TakeStep(const StepReport& report, Rank rank) {
  const auto it = std::find_if(steps_.begin(), steps_.end(),
                               [&](const Step& step) { return step.plan == report.plan; });
  if (it == steps_.end()) {
    health_ = InternalError(fmt::format("rank {} reports plan {}, which is not in flight",
                                        rank.value, report.plan.value));
    return false;
  }
  if (!it->digests.empty() && it->digests.front().second != report.digest) {
    const auto& [other, digest] = it->digests.front();
    health_ = InternalError(
        fmt::format("ranks diverged at plan {}: rank {} executed {:016x}, rank {} executed {:016x}",
                    report.plan.value, other.value, digest, rank.value, report.digest));
    return false;
  }
  it->digests.emplace_back(rank, report.digest);
  if (!report.output.rows.empty()) it->output = report.output;
  return true;
}

void EngineCore::TakeLease(const LeaseReport& report) {
  const auto it = endings_.find(report.admission);
  if (it == endings_.end() || it->second.leases_left == 0) return;
  LOG(kDebug, "lease of request {}: {}", report.admission.value, report.end);
  if (--it->second.leases_left == 0) {
    --leases_;
    ++totals_.progress;
  }
}

bool EngineCore::CompleteSteps(MonoTime now) {
  bool moved = false;
  while (!steps_.empty() && steps_.front().digests.size() == parts_.ranks->size()) {
    const backend::StepOutput output = std::move(steps_.front().output);
    steps_.pop_front();
    ++totals_.steps;
    ++totals_.progress;
    moved = true;
    const auto drawn = scheduler_.Complete(output);
    if (!drawn.ok()) {
      Lose(drawn.status(), now);
      return true;
    }
    for (const DrawnToken& one : *drawn) {
      OnToken(one.admission, one.token, one.logprobs, now);
    }
  }
  return moved;
}

// ------------------------------------------------------------------------------- tokens

void EngineCore::OnToken(AdmissionId admission, int32_t token,
                         const std::optional<wire::PositionLogprobs>& logprobs, MonoTime now) {
  Request& request = requests_.at(admission);
  if (token < 0) {
    Fail(admission, InternalError("the model gave no finite logit"), now);
    return;
  }
  if (request.first_token == MonoTime::Max()) request.first_token = now;
  ++request.generated;
  request.response.tokens.push_back(token);
  if (logprobs.has_value()) request.response.logprobs.push_back(*logprobs);
  // First tokens of a hand-off are in the sequence already.
  const bool is_first = request.spec.kind == wire::RequestKind::kGenerationOnly &&
                        request.generated <= request.spec.first_tokens.size();
  if (!is_first) {
    scheduler_.Accept(admission, token);
    ++totals_.generated_tokens;
  }
  StopChecker::Outcome outcome = request.stop.Push(token);
  request.response.text += outcome.text;
  if (outcome.finish != wire::FinishReason::kNone) {
    request.response.stop_text = outcome.stop_text;
    End(admission, outcome.finish, now);
    return;
  }
  if (request.spec.kind == wire::RequestKind::kContextOnly) {
    StartOffer(admission, &request, now);
    return;
  }
  if (!request.spec.stream) return;
  ExecResponse part;
  part.id = request.response.id;
  part.tokens = std::exchange(request.response.tokens, {});
  part.text = std::exchange(request.response.text, {});
  part.logprobs = std::exchange(request.response.logprobs, {});
  part.prompt_tokens = request.response.prompt_tokens;
  emit_(std::move(part));
}

// ------------------------------------------------------------------------------- hand-off

void EngineCore::StartOffer(AdmissionId admission, Request* request, MonoTime now) {
  request->offering = true;
  request->response.handoff = MakeDescriptor(admission, *request);
  const Sequence* sequence = scheduler_.Find(admission);
  PlanOffer offer;
  offer.admission = admission;
  offer.lease = admission.value;
  offer.attempt = request->spec.attempt;
  offer.tokens = sequence->prompt_tokens;
  offer.offer_timeout = parts_.options.offer_timeout;
  offer.transfer_timeout = parts_.options.transfer_timeout;
  const MonoTime deadline = request->spec.deadline;
  if (deadline != MonoTime::Max()) offer.request_left = deadline - now;
  Ending ending;
  ending.last_plan = sequence->last_plan;
  ending.leases_left = parts_.ranks->size();
  ending.lease_cap =
      now + parts_.options.offer_timeout + kTransferTimeoutsMax * parts_.options.transfer_timeout;
  endings_.emplace(admission, ending);
  ++leases_;
  votes_.Open(admission, VoteKind::kOffered, NameOf(admission));
  votes_.Arm(admission, VoteKind::kOffered, now);
  votes_.Open(admission, VoteKind::kReleased, NameOf(admission));
  scheduler_.Offer(offer);
}

wire::HandoffDescriptor EngineCore::MakeDescriptor(AdmissionId admission,
                                                   const Request& request) const {
  const Sequence* sequence = scheduler_.Find(admission);
  wire::HandoffDescriptor descriptor;
  descriptor.instance = parts_.instance;
  descriptor.instance_epoch = parts_.instance_epoch;
  descriptor.attempt = request.spec.attempt;
  descriptor.lease = admission.value;
  descriptor.endpoints = parts_.ranks->endpoints();
  descriptor.layout = parts_.layout;
  descriptor.tokens = sequence->prompt_tokens;
  const uint32_t blocks = scheduler_.BlocksFor(sequence->prompt_tokens);
  for (uint32_t i = 0; i < blocks; ++i) descriptor.blocks.push_back(sequence->blocks[i].value);
  const auto hashes = kv::HashBlocks(kv::RootHash(CacheModel(parts_.layout), sequence->salt),
                                     std::span(sequence->tokens).first(sequence->prompt_tokens),
                                     parts_.request_limits.block_tokens);
  for (const kv::BlockHash& hash : hashes) descriptor.block_hashes.push_back(hash.Bytes());
  return descriptor;
}

void EngineCore::OnOffered(const Commit& commit, MonoTime now) {
  const auto it = requests_.find(commit.admission);
  if (it == requests_.end()) return;
  if (!commit.status.ok()) {
    it->second.response.handoff.reset();
    AbortLease(commit.admission, commit.status.message());
    Fail(commit.admission,
         UnavailableError("the KV could not be offered: " + commit.status.ToString()), now);
    return;
  }
  EmitFinal(&it->second, now);
  deadlines_.erase({it->second.spec.deadline, commit.admission});
  requests_.erase(it);
}

void EngineCore::OnReceived(const Commit& commit, MonoTime now) {
  --fetches_;
  ++totals_.progress;
  const auto it = requests_.find(commit.admission);
  CHECK(it != requests_.end(), "a fetch was committed for a request that ended");
  Request& request = it->second;
  if (!commit.status.ok()) {
    if (now >= request.spec.deadline) {
      End(commit.admission, wire::FinishReason::kExpired, now, "deadline");
      return;
    }
    const bool hopeless = commit.status.code() == StatusCode::kInvalidArgument;
    const std::string text = "the KV did not arrive: " + commit.status.ToString();
    Fail(commit.admission, hopeless ? InvalidArgumentError(text) : UnavailableError(text), now);
    return;
  }
  request.received = now;
  scheduler_.Received(commit.admission);
  const std::vector<int32_t> first = request.spec.first_tokens;
  for (size_t i = 0; i < first.size() && requests_.contains(commit.admission); ++i) {
    std::optional<wire::PositionLogprobs> logprobs;
    if (i < request.spec.first_logprobs.size()) logprobs = request.spec.first_logprobs[i];
    OnToken(commit.admission, first[i], logprobs, now);
  }
}

// ------------------------------------------------------------------------------- commits

bool EngineCore::OnCommits(MonoTime now) {
  const std::vector<Commit> commits = votes_.TakeCommits();
  for (const Commit& commit : commits) {
    switch (commit.kind) {
      case VoteKind::kReceived:
        OnReceived(commit, now);
        break;
      case VoteKind::kOffered:
        OnOffered(commit, now);
        break;
      case VoteKind::kReleased:
        AbortLease(commit.admission, "");  // nothing is open any more; settles the counter
        scheduler_.Release(commit.admission);
        endings_.erase(commit.admission);
        ++totals_.progress;
        break;
    }
  }
  return !commits.empty();
}

// ------------------------------------------------------------------------------- timers

bool EngineCore::RunTimers(MonoTime now) {
  bool moved = false;
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    End(deadlines_.begin()->second, wire::FinishReason::kExpired, now, "deadline");
    moved = true;
  }
  for (auto& [admission, ending] : endings_) {
    if (ending.leases_left == 0 || now < ending.lease_cap) continue;
    LOG(kWarning, "the lease of request {} did not end by itself; withdrawn", admission.value);
    AbortLease(admission, "it lasted too long");
    moved = true;
  }
  ArmVotes(now);
  for (const LateVote& late : votes_.TakeLate(now)) {
    const std::string text = fmt::format("{} vote of rank {} for {} is missing for {} ms",
                                         VoteKindName(late.kind), late.rank.value, late.request,
                                         std::chrono::duration_cast<Millis>(late.age).count());
    LOG(kError, "{}", text);
    if (late.lost) {
      Lose(DeadlineExceededError(text), now);
      return true;
    }
  }
  if (!steps_.empty() && now - steps_.front().sent >= parts_.options.step_deadline) {
    std::string ranks;
    for (uint32_t rank = 0; rank < parts_.ranks->size(); ++rank) {
      const auto& have = steps_.front().digests;
      if (std::none_of(have.begin(), have.end(),
                       [&](const auto& one) { return one.first.value == rank; })) {
        ranks += fmt::format(" {}", rank);
      }
    }
    Lose(DeadlineExceededError(fmt::format("step of plan {} is not reported by rank{}",
                                           steps_.front().plan.value, ranks)),
         now);
    return true;
  }
  return moved;
}

// The deadline of a release vote runs once the ranks can cast it: steps done, leases ended.
void EngineCore::ArmVotes(MonoTime now) {
  const PlanNumber executed = executed_plan();
  for (const auto& [admission, ending] : endings_) {
    if (ending.leases_left > 0 || ending.last_plan > executed) continue;
    votes_.Arm(admission, VoteKind::kReleased, now);
  }
}

PlanNumber EngineCore::executed_plan() const {
  return steps_.empty() ? scheduler_.last_plan() : PlanNumber(steps_.front().plan.value - 1);
}

// ------------------------------------------------------------------------------- plans

// At most one step a turn: a backend that computes inside Submit has then reported it before the
// next one is planned, and never runs ahead of what the host knows for nothing.
bool EngineCore::SendPlans(MonoTime now) {
  const bool room = steps_.size() <= parts_.options.steps_ahead;
  const std::optional<Plan> plan = scheduler_.Next(now, room);
  if (!plan.has_value()) return false;
  NotePlan(*plan, now);
  const Status sent = parts_.ranks->Send(*plan);
  if (!sent.ok()) Lose(sent, now);
  return true;
}

void EngineCore::NotePlan(const Plan& plan, MonoTime now) {
  for (const backend::SequenceSpec& spec : plan.admissions) {
    Request& request = requests_.at(spec.admission);
    const Sequence* sequence = scheduler_.Find(spec.admission);
    request.admitted = now;
    request.response.cached_tokens = sequence->cached_tokens;
    totals_.prompt_tokens += sequence->prompt_tokens;
    totals_.cache_hit_tokens += sequence->cached_tokens;
  }
  for (const PlanFetch& fetch : plan.fetches) {
    ++fetches_;
    votes_.Open(fetch.admission, VoteKind::kReceived, NameOf(fetch.admission));
    votes_.Arm(fetch.admission, VoteKind::kReceived, now + fetch.time_left);
  }
  if (!plan.rows.empty()) steps_.push_back({.plan = plan.number, .sent = now});
}

// ------------------------------------------------------------------------------- ends

void EngineCore::End(AdmissionId admission, wire::FinishReason reason, MonoTime now,
                     const std::string& abort_reason) {
  Request& request = requests_.at(admission);
  request.response.finish = reason;
  const bool by_itself = reason == wire::FinishReason::kEnd ||
                         reason == wire::FinishReason::kStop ||
                         reason == wire::FinishReason::kLength;
  if (!by_itself) {
    request.response.text += request.stop.Flush();
    request.response.handoff.reset();
  }
  EmitFinal(&request, now);
  if (request.offering) {
    AbortLease(admission, abort_reason);  // its sequence is finishing already
  } else {
    FinishSequence(admission, abort_reason);
  }
  deadlines_.erase({request.spec.deadline, admission});
  requests_.erase(admission);
}

void EngineCore::Fail(AdmissionId admission, Status status, MonoTime now) {
  Request& request = requests_.at(admission);
  request.response.error =
      wire::ErrorInfo{.code = status.code(), .message = status.message(), .client_fault = false};
  End(admission, wire::FinishReason::kError, now, status.message());
}

void EngineCore::FinishSequence(AdmissionId admission, const std::string& abort_reason) {
  const Sequence* sequence = scheduler_.Find(admission);
  const bool fetching = sequence->state == SequenceState::kFetching;
  Ending ending;
  ending.last_plan = sequence->last_plan;
  if (!scheduler_.Finish(admission, fetching ? abort_reason : "")) return;
  if (votes_.open(admission, VoteKind::kReceived)) {
    votes_.Close(admission, VoteKind::kReceived);
    --fetches_;
  }
  endings_.emplace(admission, ending);
  votes_.Open(admission, VoteKind::kReleased, NameOf(admission));
}

// Also settles the lease's count when there is none or it has ended.
void EngineCore::AbortLease(AdmissionId admission, const std::string& reason) {
  const auto it = endings_.find(admission);
  if (it == endings_.end() || it->second.leases_left == 0) return;
  it->second.leases_left = 0;
  --leases_;
  votes_.Close(admission, VoteKind::kOffered);
  if (!reason.empty()) scheduler_.Abort(admission, reason);
}

void EngineCore::EmitFinal(Request* request, MonoTime now) {
  ExecResponse& response = request->response;
  response.final = true;
  if (response.handoff.has_value()) response.finish = wire::FinishReason::kNone;
  wire::Timings& t = response.timings;
  const bool generation = request->spec.kind == wire::RequestKind::kGenerationOnly;
  t.queue_ms = Ms(request->enqueued, std::min(request->admitted, now));
  if (generation) {
    t.transfer_ms = Ms(request->admitted, std::min(request->received, now));
    t.generation_ms = Ms(request->received, now);
  } else {
    t.context_ms = Ms(request->admitted, std::min(request->first_token, now));
    t.generation_ms = Ms(request->first_token, now);
  }
  emit_(std::move(response));
}

void EngineCore::Lose(const Status& status, MonoTime now) {
  health_ = status;
  LOG(kError, "engine lost: {}", status.ToString());
  for (auto& [admission, request] : requests_) {
    request.response.finish = wire::FinishReason::kError;
    request.response.handoff.reset();
    request.response.error = wire::ErrorInfo{.code = StatusCode::kUnavailable,
                                             .message = "engine lost: " + status.ToString()};
    EmitFinal(&request, now);
  }
  requests_.clear();
  deadlines_.clear();
}

std::string EngineCore::NameOf(AdmissionId admission) const {
  return fmt::format("request {}", admission.value);
}

ExecStats EngineCore::stats() const {
  ExecStats stats = totals_;
  const kv::PoolCounts counts = scheduler_.cache().counts();
  stats.running = scheduler_.running();
  stats.queued = scheduler_.waiting();
  stats.blocks_total = counts.total;
  stats.blocks_free = counts.free;
  stats.blocks_cached = counts.cached;
  stats.blocks_used = counts.used;
  stats.leases_open = leases_;
  stats.fetches_open = fetches_;
  for (const AdmissionId admission : scheduler_.InStep()) stats.in_step.push_back(admission.value);
  return stats;
}

}  // namespace baton::engine
