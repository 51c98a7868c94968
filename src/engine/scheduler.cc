#include "src/engine/scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "src/base/check.h"

namespace baton::engine {

Scheduler::Scheduler(const SchedulerOptions& options, const kv::PrefixCacheOptions& cache)
    : options_(options),
      // One row and one token for each: decodes alone can then never keep a prompt from advancing.
      active_max_(std::min({options.running_max, options.step_rows_max, options.step_tokens_max})),
      cache_(cache) {
  CHECK(active_max_ > 0);
}

uint32_t Scheduler::BlocksFor(uint32_t positions) const {
  const uint32_t block_tokens = cache_.block_tokens();
  return positions / block_tokens + (positions % block_tokens != 0 ? 1 : 0);
}

void Scheduler::Add(Sequence sequence) {
  CHECK(sequence.worst_blocks <= cache_.counts().total, "a request that can never run was let in");
  CHECK(sequence.worst_blocks > 0 && sequence.state == SequenceState::kWaiting);
  const AdmissionId admission = sequence.admission;
  CHECK(sequences_.emplace(admission, std::move(sequence)).second, "an admission id was reused");
  waiting_.push_back(admission);
}

void Scheduler::Received(AdmissionId admission) {
  Sequence* sequence = Get(admission);
  CHECK(sequence->state == SequenceState::kFetching);
  sequence->state = SequenceState::kRunning;
  sequence->scheduled = sequence->executed = sequence->prompt_tokens;
  running_.push_back(admission);
  IndexExecuted(sequence);
}

void Scheduler::Accept(AdmissionId admission, int32_t token) {
  Get(admission)->tokens.push_back(token);
}

bool Scheduler::Finish(AdmissionId admission, const std::string& abort_reason) {
  Sequence* sequence = Get(admission);
  if (sequence->state == SequenceState::kWaiting) {
    waiting_.erase(std::find(waiting_.begin(), waiting_.end(), admission));
    sequences_.erase(admission);
    return false;
  }
  CHECK(sequence->state != SequenceState::kFinishing, "a sequence was finished twice");
  std::erase(running_, admission);
  --active_;
  // What it will not take any more is free for others now.
  reserved_ -= sequence->worst_blocks - static_cast<uint32_t>(sequence->blocks.size());
  sequence->state = SequenceState::kFinishing;
  if (!abort_reason.empty()) aborts_.push_back({admission, abort_reason});
  finishes_.push_back({admission, sequence->last_plan});
  return true;
}

void Scheduler::Abort(AdmissionId admission, const std::string& reason) {
  aborts_.push_back({admission, reason});
}

void Scheduler::Offer(PlanOffer offer) {
  offer.after = Get(offer.admission)->last_plan;
  offers_.push_back(offer);
  CHECK(Finish(offer.admission, ""));
}

void Scheduler::Release(AdmissionId admission) {
  Sequence* sequence = Get(admission);
  CHECK(sequence->state == SequenceState::kFinishing, "a release without a finish");
  IndexExecuted(sequence);
  cache_.Release(sequence->blocks);
  sequences_.erase(admission);
  releases_.push_back(admission);
}

std::optional<Plan> Scheduler::Next(MonoTime now, bool with_rows) {
  Plan plan;
  plan.number = PlanNumber(next_plan_);
  plan.releases = std::exchange(releases_, {});
  Admit(now, &plan);
  if (with_rows) AddRows(&plan);
  plan.offers = std::exchange(offers_, {});
  plan.aborts = std::exchange(aborts_, {});
  plan.finishes = std::exchange(finishes_, {});
  if (plan.empty()) return std::nullopt;
  ++next_plan_;
  return plan;
}

void Scheduler::Admit(MonoTime now, Plan* plan) {
  while (!waiting_.empty() && active_ < active_max_) {
    Sequence* sequence = Get(waiting_.front());
    // In order of arrival: passing a large request by would starve it.
    if (!TryAdmit(sequence, now, plan)) return;
    waiting_.pop_front();
  }
}

bool Scheduler::TryAdmit(Sequence* sequence, MonoTime now, Plan* plan) {
  const auto prompt = std::span(sequence->tokens).first(sequence->prompt_tokens);
  kv::PrefixMatch match = cache_.Lookup(prompt, sequence->salt);
  const auto matched = static_cast<uint32_t>(match.blocks.size());
  const kv::PoolCounts counts = cache_.counts();
  const uint32_t need = sequence->worst_blocks - std::min(sequence->worst_blocks, matched);
  if (need + reserved_ > counts.free + counts.cached) {
    cache_.Release(match.blocks);
    return false;
  }
  cache_.CountLookup(matched, sequence->prompt_tokens);
  reserved_ += need;
  ++active_;
  sequence->blocks = std::move(match.blocks);
  sequence->cursor = match.cursor;
  sequence->cached_tokens = matched * cache_.block_tokens();
  sequence->scheduled = sequence->executed = sequence->cached_tokens;
  sequence->last_plan = plan->number;
  plan->admissions.push_back({.admission = sequence->admission,
                              .sampling = sequence->sampling,
                              .history = sequence->tokens,
                              .prompt_tokens = sequence->prompt_tokens,
                              .logprobs = sequence->logprobs});
  if (matched > 0) plan->blocks.push_back({sequence->admission, sequence->blocks});
  if (!sequence->handoff.has_value()) {
    sequence->state = SequenceState::kRunning;
    running_.push_back(sequence->admission);
    return true;
  }
  sequence->state = SequenceState::kFetching;
  Grow(sequence, sequence->prompt_tokens, plan);
  const Nanos left =
      std::min(options_.fetch_timeout,
               sequence->deadline == MonoTime::Max() ? Nanos::max() : sequence->deadline - now);
  plan->fetches.push_back(
      {sequence->admission, *sequence->handoff, matched, sequence->receiver, left});
  return true;
}

void Scheduler::AddRows(Plan* plan) {
  StepRecord record;
  record.step = next_step_;
  std::vector<Sequence*> decodes;
  std::vector<Sequence*> prompts;
  for (const AdmissionId admission : running_) {
    Sequence* sequence = Get(admission);
    (sequence->drawn() - sequence->scheduled == 1 ? decodes : prompts).push_back(sequence);
  }
  uint32_t left = options_.step_tokens_max;
  for (const auto* group : {&decodes, &prompts}) {
    for (Sequence* sequence : *group) {
      if (left == 0) break;
      if (AddRow(sequence, left, plan, &record)) {
        left -= static_cast<uint32_t>(plan->rows.back().tokens.size());
      }
    }
  }
  if (record.rows.empty()) return;
  plan->step = next_step_++;
  steps_.push_back(std::move(record));
}

bool Scheduler::AddRow(Sequence* sequence, uint32_t tokens_max, Plan* plan, StepRecord* record) {
  if (!sequence->wants_more()) return false;  // its last draw is on the way
  const auto known = static_cast<uint32_t>(sequence->tokens.size());
  PlanRow row;
  row.admission = sequence->admission;
  row.position = sequence->scheduled;
  if (sequence->scheduled < known) {
    const uint32_t count = std::min(known - sequence->scheduled, tokens_max);
    const auto first = sequence->tokens.begin() + sequence->scheduled;
    row.tokens.assign(first, first + count);
    row.sample = sequence->scheduled + count == known;
  } else {
    // The input is a token that the host has not read: only the step right before can supply it,
    // and every decode is in every step.
    CHECK(sequence->last_step + 1 == record->step, "a decode missed a step");
    row.tokens = {0};
    row.input_from_row = sequence->last_row;
    row.sample = true;
  }
  sequence->scheduled += static_cast<uint32_t>(row.tokens.size());
  sequence->last_plan = plan->number;
  Grow(sequence, sequence->scheduled, plan);
  if (row.sample) {
    ++sequence->unread;
    sequence->last_step = record->step;
    sequence->last_row = static_cast<int32_t>(plan->rows.size());
  }
  record->rows.push_back({sequence->admission, sequence->scheduled, row.sample});
  plan->rows.push_back(std::move(row));
  return true;
}

void Scheduler::Grow(Sequence* sequence, uint32_t positions, Plan* plan) {
  const auto have = static_cast<uint32_t>(sequence->blocks.size());
  const uint32_t need = BlocksFor(positions);
  if (need <= have) return;
  CHECK(need <= sequence->worst_blocks, "a sequence outgrew what was reserved for it");
  std::vector<BlockId> added;
  CHECK(cache_.Allocate(need - have, &added), "reserved blocks are missing");
  reserved_ -= need - have;
  sequence->blocks.insert(sequence->blocks.end(), added.begin(), added.end());
  plan->blocks.push_back({sequence->admission, std::move(added)});
}

Result<std::vector<DrawnToken>> Scheduler::Complete(const backend::StepOutput& output) {
  if (steps_.empty() || steps_.front().step != output.step ||
      steps_.front().rows.size() != output.rows.size()) {
    return InternalError(fmt::format("step {} came back with {} rows, and is not the one awaited",
                                     output.step, output.rows.size()));
  }
  const StepRecord record = std::move(steps_.front());
  steps_.pop_front();
  std::vector<DrawnToken> drawn;
  for (size_t i = 0; i < record.rows.size(); ++i) {
    const RowRecord& row = record.rows[i];
    const backend::RowOutput& out = output.rows[i];
    // Present: a release waits for every plan that names the sequence.
    Sequence* sequence = Get(row.admission);
    if (out.admission != row.admission || (row.sample && out.position != row.end)) {
      return InternalError(fmt::format(
          "row {} of step {} is for admission {} at {}, asked was admission {} at {}", i,
          output.step, out.admission.value, out.position, row.admission.value, row.end));
    }
    sequence->executed = std::max(sequence->executed, row.end);
    if (row.sample && out.token < 0) sequence->tainted = true;
    if (sequence->state == SequenceState::kFinishing) {
      dropped_tokens_ += row.sample ? 1 : 0;
      continue;
    }
    IndexExecuted(sequence);
    if (!row.sample) continue;
    CHECK(out.position == sequence->tokens.size(), "tokens are read in the order of positions");
    --sequence->unread;
    drawn.push_back({row.admission, out.token, out.logprobs});
  }
  return drawn;
}

void Scheduler::IndexExecuted(Sequence* sequence) {
  if (sequence->tainted) return;
  const size_t held = std::min<size_t>(sequence->executed, sequence->tokens.size());
  cache_.Index(std::span(sequence->tokens).first(held), sequence->blocks, &sequence->cursor);
}

std::vector<AdmissionId> Scheduler::InStep() const {
  std::vector<AdmissionId> admissions;
  if (steps_.empty()) return admissions;
  for (const RowRecord& row : steps_.front().rows) admissions.push_back(row.admission);
  return admissions;
}

const Sequence* Scheduler::Find(AdmissionId admission) const {
  const auto it = sequences_.find(admission);
  return it == sequences_.end() ? nullptr : &it->second;
}

Sequence* Scheduler::Get(AdmissionId admission) {
  const auto it = sequences_.find(admission);
  CHECK(it != sequences_.end(), "an admission that the scheduler does not hold");
  return &it->second;
}

}  // namespace baton::engine
