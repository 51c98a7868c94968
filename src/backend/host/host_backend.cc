#include "src/backend/host/host_backend.h"

#include <fmt/format.h>

#include "src/base/check.h"

namespace baton::backend {

HostBackend::HostBackend(const model::Config& config, const KvShape& shape, Buffer kv_memory,
                         const Limits& limits, std::unique_ptr<HostCompute> compute)
    : config_(config),
      shape_(shape),
      kv_memory_(kv_memory),
      limits_(limits),
      compute_(std::move(compute)) {
  tokens_.reserve(limits.tokens_max);
  rows_.reserve(limits.rows_max);
  outputs_.reserve(limits.tokens_max);
  logits_.resize(size_t{limits.rows_max} * config.vocab);
}

void HostBackend::OpenSequence(SequenceSpec spec) {
  const bool fresh = samplers_.try_emplace(spec.admission, spec).second;
  CHECK(fresh, fmt::format("admission {} is open already", spec.admission.value));
}

void HostBackend::CloseSequence(AdmissionId admission) { samplers_.erase(admission); }

Status HostBackend::CheckRow(const StepRow& row, std::span<const RowOutput> previous) const {
  const auto bad = [&](std::string_view why) {
    return InvalidArgumentError(fmt::format("row of admission {} at position {}: {}",
                                            row.admission.value, row.position, why));
  };
  if (row.tokens.empty()) return bad("no tokens");
  const uint64_t end = uint64_t{row.position} + row.tokens.size();
  if (end > config_.context) {
    return bad(fmt::format("{} positions are above the model's {}", end, config_.context));
  }
  if (row.blocks.size() * uint64_t{shape_.block_tokens} < end) {
    return bad(fmt::format("{} blocks do not cover {} positions", row.blocks.size(), end));
  }
  for (const BlockId block : row.blocks) {
    if (block.value >= shape_.blocks) {
      return bad(fmt::format("block {} lies outside the pool of {}", block.value, shape_.blocks));
    }
  }
  if (row.sample && !samplers_.contains(row.admission)) return bad("its sequence is not open");
  if (row.input_from_row >= 0) {
    if (row.tokens.size() != 1) return bad("a chained row has one token");
    if (static_cast<size_t>(row.input_from_row) >= previous.size()) {
      return bad(fmt::format("row {} of the step before does not exist", row.input_from_row));
    }
    return OkStatus();
  }
  for (const int32_t token : row.tokens) {
    if (token < 0 || static_cast<uint32_t>(token) >= config_.vocab) {
      return bad(fmt::format("token {} is outside the vocabulary", token));
    }
  }
  return OkStatus();
}

Status HostBackend::Flatten(std::span<const StepRow> rows, std::span<const RowOutput> previous) {
  tokens_.clear();
  rows_.clear();
  outputs_.clear();
  if (rows.size() > limits_.rows_max) {
    return InvalidArgumentError(
        fmt::format("{} rows in one step, at most {}", rows.size(), limits_.rows_max));
  }
  uint64_t total = 0;
  for (const StepRow& row : rows) total += row.tokens.size();
  if (total > limits_.tokens_max) {
    return InvalidArgumentError(
        fmt::format("{} tokens in one step, at most {}", total, limits_.tokens_max));
  }
  for (const StepRow& row : rows) {
    BATON_RETURN_IF_ERROR(CheckRow(row, previous));
    rows_.push_back({.first = static_cast<uint32_t>(tokens_.size()),
                     .count = static_cast<uint32_t>(row.tokens.size()),
                     .position = row.position,
                     .blocks = row.blocks.data()});
    if (row.input_from_row >= 0) {
      // A draw that failed (-1) is known to the caller one step late; the row still has to run.
      tokens_.push_back(std::max(0, previous[static_cast<size_t>(row.input_from_row)].token));
    } else {
      tokens_.insert(tokens_.end(), row.tokens.begin(), row.tokens.end());
    }
  }
  return OkStatus();
}

Result<Ticket> HostBackend::Submit(const StepInput& step) {
  if (step.step != last_step_ + 1) {
    return InvalidArgumentError(
        fmt::format("step {} follows step {}: steps are consecutive", step.step, last_step_));
  }
  if (answers_.size() >= kUnansweredMax) {
    return InvalidArgumentError(fmt::format("{} steps were never polled", answers_.size()));
  }
  BATON_RETURN_IF_ERROR(Flatten(step.rows, last_rows_));
  for (size_t i = 0; i < step.rows.size(); ++i) {
    if (step.rows[i].sample) outputs_.push_back(rows_[i].first + rows_[i].count - 1);
  }
  if (!tokens_.empty()) {
    compute_->Run({.tokens = tokens_, .rows = rows_, .outputs = outputs_}, logits_.data());
  }
  StepOutput output = Draw(step);
  last_step_ = step.step;
  last_rows_ = output.rows;
  answers_.emplace(step.step, std::move(output));
  return Ticket{step.step};
}

StepOutput HostBackend::Draw(const StepInput& step) {
  StepOutput output;
  output.step = step.step;
  output.rows.reserve(step.rows.size());
  size_t sampled = 0;
  for (const StepRow& row : step.rows) {
    RowOutput& out = output.rows.emplace_back();
    out.admission = row.admission;
    out.position = row.position + static_cast<uint32_t>(row.tokens.size());
    if (!row.sample) continue;
    const std::span<const float> logits(&logits_[sampled++ * config_.vocab], config_.vocab);
    const bool input_failed =
        row.input_from_row >= 0 && last_rows_[static_cast<size_t>(row.input_from_row)].token < 0;
    if (input_failed) continue;
    out.token = samplers_.at(row.admission).Sample(logits, out.position, &out.logprobs);
  }
  return output;
}

Result<std::optional<StepOutput>> HostBackend::Poll(Ticket ticket) {
  const auto it = answers_.find(ticket);
  if (it == answers_.end()) {
    return InvalidArgumentError(fmt::format("ticket {} is unknown or was answered", ticket));
  }
  std::optional<StepOutput> output(std::move(it->second));
  answers_.erase(it);
  return output;
}

Result<std::vector<float>> HostBackend::Logits(std::span<const StepRow> rows) {
  BATON_RETURN_IF_ERROR(Flatten(rows, {}));
  for (uint32_t i = 0; i < tokens_.size(); ++i) outputs_.push_back(i);
  std::vector<float> logits(tokens_.size() * config_.vocab);
  if (!tokens_.empty()) {
    compute_->Run({.tokens = tokens_, .rows = rows_, .outputs = outputs_}, logits.data());
  }
  return logits;
}

}  // namespace baton::backend
