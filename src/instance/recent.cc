#include "src/instance/recent.h"

#include <utility>

namespace baton::instance {

bool RecentRuns::Start(const RunKey& key, uint64_t exec_id) {
  return runs_.emplace(key, Run{exec_id, std::nullopt, std::nullopt}).second;
}

void RecentRuns::Finish(const RunKey& key, wire::Event event) {
  Run& run = runs_[key];
  if (!run.last_event.has_value()) finished_.push_back(key);
  if (event.handoff.has_value()) run.lease = event.handoff->lease;
  run.last_event = std::move(event);
  while (finished_.size() > finished_max_) {
    runs_.erase(finished_.front());
    finished_.pop_front();
  }
}

const RecentRuns::Run* RecentRuns::Find(const RunKey& key) const {
  const auto found = runs_.find(key);
  return found == runs_.end() ? nullptr : &found->second;
}

}  // namespace baton::instance
