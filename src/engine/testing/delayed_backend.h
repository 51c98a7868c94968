// Makes any backend late: a step is computed as late as the contract allows, and the host learns of
// steps after up to `delay` looks each, in any order. Seeded. One owner thread.
#pragma once

#include <cstdint>
#include <deque>
#include <map>

#include "src/backend/backend.h"
#include "src/base/rng.h"

namespace baton::engine::testing {

class DelayedBackend : public backend::Backend {
 public:
  // `inner` belongs to the caller.
  DelayedBackend(backend::Backend* inner, uint32_t delay, uint64_t seed)
      : inner_(inner), delay_(delay), rng_(seed) {}

  const model::Config& config() const override { return inner_->config(); }
  const backend::KvShape& kv_shape() const override { return inner_->kv_shape(); }
  backend::Buffer kv_pool() override { return inner_->kv_pool(); }
  backend::Limits limits() const override { return inner_->limits(); }
  // A real device keeps a sequence's state until its steps are through; so closing looks whether
  // any step that names it is still to be computed.
  void OpenSequence(backend::SequenceSpec spec) override { inner_->OpenSequence(std::move(spec)); }
  void CloseSequence(AdmissionId admission) override;
  Result<backend::Ticket> Submit(const backend::StepInput& step) override;
  Result<std::optional<backend::StepOutput>> Poll(backend::Ticket ticket) override;
  // Answers nothing any more, like a device that hangs.
  void Hang() { hung_ = true; }

 private:
  struct Pending {
    backend::Ticket ticket = 0;
    backend::StepInput step;
  };
  Status ComputeUpTo(backend::Ticket ticket);

  backend::Backend* const inner_;
  const uint32_t delay_;
  Rng rng_;
  std::deque<Pending> pending_;  // not computed yet
  std::map<backend::Ticket, uint32_t> looks_left_;
  std::map<backend::Ticket, backend::Ticket> inner_tickets_;
  backend::Ticket next_ = 1;
  bool hung_ = false;
};

}  // namespace baton::engine::testing
