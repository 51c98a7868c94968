#include "src/engine/testing/delayed_backend.h"

#include "src/base/check.h"

namespace baton::engine::testing {

void DelayedBackend::CloseSequence(AdmissionId admission) {
  for (const Pending& pending : pending_) {
    for (const backend::StepRow& row : pending.step.rows) {
      CHECK(row.admission != admission, "a sequence was closed before its steps ran");
    }
  }
  inner_->CloseSequence(admission);
}

Result<backend::Ticket> DelayedBackend::Submit(const backend::StepInput& step) {
  const backend::Ticket ticket = next_++;
  pending_.push_back({ticket, step});
  looks_left_[ticket] = static_cast<uint32_t>(rng_.Below(delay_ + 1));
  return ticket;
}

Status DelayedBackend::ComputeUpTo(backend::Ticket ticket) {
  while (!pending_.empty() && pending_.front().ticket <= ticket) {
    ASSIGN_OR_RETURN(inner_tickets_[pending_.front().ticket],
                     inner_->Submit(pending_.front().step));
    pending_.pop_front();
  }
  return OkStatus();
}

Result<std::optional<backend::StepOutput>> DelayedBackend::Poll(backend::Ticket ticket) {
  const auto it = looks_left_.find(ticket);
  CHECK(it != looks_left_.end(), "a ticket is answered once");
  if (hung_) return std::optional<backend::StepOutput>();
  if (it->second > 0) {
    --it->second;
    return std::optional<backend::StepOutput>();
  }
  BATON_RETURN_IF_ERROR(ComputeUpTo(ticket));
  looks_left_.erase(it);
  return inner_->Poll(inner_tickets_.extract(ticket).mapped());
}

}  // namespace baton::engine::testing
