#include "src/engine/outbox.h"

#include <algorithm>
#include <iterator>

namespace baton::engine {
namespace {

template <typename T>
void Append(std::vector<T>* to, std::vector<T> more) {
  to->insert(to->end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

// `later` continues `earlier`.
ExecResponse Join(ExecResponse earlier, ExecResponse later) {
  Append(&earlier.tokens, std::move(later.tokens));
  Append(&earlier.logprobs, std::move(later.logprobs));
  later.tokens = std::move(earlier.tokens);
  later.logprobs = std::move(earlier.logprobs);
  later.text.insert(0, earlier.text);
  return later;
}

}  // namespace

void Outbox::Put(ExecResponse response) {
  {
    std::lock_guard lock(mutex_);
    const auto [it, is_new] = arrivals_.try_emplace(response.id, next_);
    if (is_new) {
      responses_.emplace(next_++, std::move(response));
    } else {
      ExecResponse& held = responses_.at(it->second);
      held = Join(std::move(held), std::move(response));
    }
  }
  ready_.notify_all();
}

std::vector<ExecResponse> Outbox::TakeAny(Nanos timeout) {
  std::unique_lock lock(mutex_);
  ready_.wait_for(lock, timeout, [&] { return closed_ || !responses_.empty(); });
  std::vector<ExecResponse> taken;
  for (auto& [arrival, response] : responses_) taken.push_back(std::move(response));
  responses_.clear();
  arrivals_.clear();
  return taken;
}

std::vector<ExecResponse> Outbox::Take(std::span<const ExecId> ids, Nanos timeout) {
  std::unique_lock lock(mutex_);
  ready_.wait_for(lock, timeout, [&] {
    return closed_ ||
           std::any_of(ids.begin(), ids.end(), [&](ExecId id) { return arrivals_.contains(id); });
  });
  return TakeLocked(ids);
}

std::vector<ExecResponse> Outbox::TakeLocked(std::span<const ExecId> ids) {
  std::vector<uint64_t> found;
  for (const ExecId id : ids) {
    const auto it = arrivals_.find(id);
    if (it == arrivals_.end()) continue;
    found.push_back(it->second);
    arrivals_.erase(it);
  }
  std::sort(found.begin(), found.end());
  std::vector<ExecResponse> taken;
  for (const uint64_t arrival : found) {
    taken.push_back(std::move(responses_.extract(arrival).mapped()));
  }
  return taken;
}

void Outbox::Close() {
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
  }
  ready_.notify_all();
}

size_t Outbox::size() const {
  std::lock_guard lock(mutex_);
  return responses_.size();
}

}  // namespace baton::engine
