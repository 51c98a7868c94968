#include "src/base/fault.h"

#include <signal.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <map>
#include <mutex>

namespace baton {
namespace {

enum class Action { kFire, kKill, kStop };

struct Entry {
  Action action = Action::kFire;
  uint64_t at_hit = 0;  // 0: every time
};

struct Plan {
  std::mutex mutex;
  std::map<std::string, Entry, std::less<>> entries;
  std::map<std::string, uint64_t, std::less<>> hits;
};

Plan& ThePlan() {
  static auto* plan = new Plan();
  return *plan;
}

bool ParseEntry(std::string_view text, std::string* point, Entry* entry) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0) return false;
  *point = std::string(text.substr(0, equals));
  std::string_view action = text.substr(equals + 1);
  if (const size_t at = action.find('@'); at != std::string_view::npos) {
    const std::string_view number = action.substr(at + 1);
    const auto [end, error] =
        std::from_chars(number.data(), number.data() + number.size(), entry->at_hit);
    if (error != std::errc() || end != number.data() + number.size() || entry->at_hit == 0) {
      return false;
    }
    action = action.substr(0, at);
  }
  if (action == "fire")
    entry->action = Action::kFire;
  else if (action == "kill")
    entry->action = Action::kKill;
  else if (action == "stop")
    entry->action = Action::kStop;
  else
    return false;
  return true;
}

}  // namespace

namespace fault_internal {

std::atomic<bool> g_armed{false};

bool Reached(std::string_view point) {
  Plan& plan = ThePlan();
  Action action;
  {
    std::lock_guard lock(plan.mutex);
    auto hits = plan.hits.find(point);
    if (hits == plan.hits.end()) hits = plan.hits.emplace(std::string(point), 0).first;
    ++hits->second;
    const auto entry = plan.entries.find(point);
    if (entry == plan.entries.end()) return false;
    if (entry->second.at_hit != 0 && entry->second.at_hit != hits->second) return false;
    action = entry->second.action;
  }
  if (action == Action::kKill) kill(getpid(), SIGKILL);
  if (action == Action::kStop) kill(getpid(), SIGSTOP);
  return action == Action::kFire;
}

}  // namespace fault_internal

Status SetFaultPlan(std::string_view text) {
  std::map<std::string, Entry, std::less<>> entries;
  for (size_t begin = 0; begin < text.size();) {
    const size_t comma = std::min(text.find(',', begin), text.size());
    const std::string_view part = text.substr(begin, comma - begin);
    std::string point;
    Entry entry;
    if (!ParseEntry(part, &point, &entry)) {
      return InvalidArgumentError("fault plan entry '" + std::string(part) +
                                  "' is not point=fire|kill|stop[@hit]");
    }
    entries[point] = entry;
    begin = comma + 1;
  }
  Plan& plan = ThePlan();
  std::lock_guard lock(plan.mutex);
  plan.entries = std::move(entries);
  plan.hits.clear();
  fault_internal::g_armed.store(!plan.entries.empty(), std::memory_order_relaxed);
  return OkStatus();
}

Status SetFaultPlanFromEnvironment() {
  const char* text = std::getenv("BATON_FAULTS");
  return text == nullptr ? OkStatus() : SetFaultPlan(text);
}

uint64_t FaultPointHits(std::string_view point) {
  Plan& plan = ThePlan();
  std::lock_guard lock(plan.mutex);
  const auto hits = plan.hits.find(point);
  return hits == plan.hits.end() ? 0 : hits->second;
}

}  // namespace baton
