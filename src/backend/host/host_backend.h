// Backend over a compute core that works on host memory and finishes inside Submit. Checks every
// step, chains inputs, samples, and answers tickets. Owner and thread: as Backend.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "src/backend/backend.h"
#include "src/backend/probe.h"
#include "src/engine/sampling/sampling.h"

namespace baton::backend {

// Row of a step whose input tokens lie at [first, first + count) of the step's tokens.
struct FlatRow {
  uint32_t first = 0;
  uint32_t count = 0;
  uint32_t position = 0;            // of the first token
  const BlockId* blocks = nullptr;  // cover positions 0 .. position + count - 1
};

// A checked step: ids and positions are in range.
struct FlatStep {
  std::span<const int32_t> tokens;
  std::span<const FlatRow> rows;
  std::span<const uint32_t> outputs;  // indices into tokens whose logits are wanted
};

// The arithmetic. Called from one thread.
class HostCompute {
 public:
  virtual ~HostCompute() = default;
  // Writes K and V of every token to the pool, then logits [outputs.size()][vocab].
  virtual void Run(const FlatStep& step, float* logits) = 0;
};

class HostBackend : public Backend, public LogitsProbe {
 public:
  // Answers not yet polled; more is a caller that forgot them.
  static constexpr size_t kUnansweredMax = 64;

  HostBackend(const model::Config& config, const KvShape& shape, Buffer kv_memory,
              const Limits& limits, std::unique_ptr<HostCompute> compute);

  const model::Config& config() const override { return config_; }
  const KvShape& kv_shape() const override { return shape_; }
  Buffer kv_pool() override { return kv_memory_; }
  Limits limits() const override { return limits_; }
  void OpenSequence(SequenceSpec spec) override;
  void CloseSequence(AdmissionId admission) override;
  Result<Ticket> Submit(const StepInput& step) override;
  Result<std::optional<StepOutput>> Poll(Ticket ticket) override;
  Result<std::vector<float>> Logits(std::span<const StepRow> rows) override;

 private:
  // Fills the flat_ members. `previous` is empty where chaining is not possible.
  Status Flatten(std::span<const StepRow> rows, std::span<const RowOutput> previous);
  Status CheckRow(const StepRow& row, std::span<const RowOutput> previous) const;
  StepOutput Draw(const StepInput& step);

  const model::Config config_;
  const KvShape shape_;
  const Buffer kv_memory_;
  const Limits limits_;
  std::unique_ptr<HostCompute> compute_;
  std::unordered_map<AdmissionId, engine::Sampler> samplers_;

  uint64_t last_step_ = 0;
  std::vector<RowOutput> last_rows_;  // of step last_step_
  std::unordered_map<Ticket, StepOutput> answers_;

  // Reused by every step; capacities fixed by limits_.
  std::vector<int32_t> tokens_;
  std::vector<FlatRow> rows_;
  std::vector<uint32_t> outputs_;
  std::vector<float> logits_;
};

}  // namespace baton::backend
