// A deterministic backend for tests of the engine: its next token is a pure function of the bytes
// that it reads back from its KV pool, through the blocks that the row names. A wrong, stale or
// half-filled block therefore gives wrong tokens, which TinyExpected() shows. Computes inside
// Submit. Breaches of the Backend contract are kInvalidArgument. One owner thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "src/backend/backend.h"
#include "src/engine/sampling/sampling.h"

namespace baton::engine::testing {

struct TinyOptions {
  uint32_t vocab = 61;
  uint32_t context = 256;
  uint32_t layers = 2;
  uint32_t kv_heads = 2;
  uint32_t head_dim = 1;
  uint32_t block_tokens = 4;
  uint32_t blocks = 64;
  backend::Limits limits{16, 64};
  uint64_t fail_at_step = 0;  // that Submit returns an error; 0: none
};

// A sequence that holds this token has no finite logit.
inline int32_t PoisonToken(const TinyOptions& options) {
  return static_cast<int32_t>(options.vocab) - 1;
}

class TinyBackend : public backend::Backend {
 public:
  explicit TinyBackend(const TinyOptions& options);

  const model::Config& config() const override { return config_; }
  const backend::KvShape& kv_shape() const override { return shape_; }
  backend::Buffer kv_pool() override { return {backend::Space::kHost, pool_.data(), pool_.size()}; }
  backend::Limits limits() const override { return options_.limits; }
  void OpenSequence(backend::SequenceSpec spec) override;
  void CloseSequence(AdmissionId admission) override;
  Result<backend::Ticket> Submit(const backend::StepInput& step) override;
  Result<std::optional<backend::StepOutput>> Poll(backend::Ticket ticket) override;

  size_t open_sequences() const { return samplers_.size(); }
  uint64_t computed_tokens() const { return computed_tokens_; }

 private:
  Status CheckRow(const backend::StepRow& row, uint64_t step) const;
  void Write(const backend::StepRow& row, std::span<const int32_t> tokens);
  std::vector<float> Logits(const backend::StepRow& row) const;
  float* At(BlockId block, uint32_t layer, uint32_t k_or_v, uint32_t head, uint32_t token) const;

  const TinyOptions options_;
  model::Config config_;
  backend::KvShape shape_;
  mutable std::vector<std::byte> pool_;
  std::map<AdmissionId, Sampler> samplers_;
  backend::StepOutput last_;  // for input_from_row
  std::map<backend::Ticket, backend::StepOutput> done_;
  uint64_t computed_tokens_ = 0;
};

// What an undisturbed run generates: `max_new` tokens, or up to and with an end id.
struct TinyRun {
  std::vector<int32_t> tokens;
  std::vector<wire::PositionLogprobs> logprobs;
};
TinyRun TinyExpected(const TinyOptions& options, const std::vector<int32_t>& prompt,
                     uint32_t max_new, const wire::SamplingParams& sampling,
                     const std::vector<int32_t>& end_ids, std::optional<uint32_t> logprobs);

}  // namespace baton::engine::testing
