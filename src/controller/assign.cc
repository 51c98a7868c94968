// Time and routing.
#include <fmt/format.h>

#include <algorithm>

#include "src/base/log.h"
#include "src/controller/controller.h"
#include "src/wire/codec.h"

namespace baton::controller {

namespace {

using wire::RequestState;

// Requests looked at per turn and need: those that find no instance must not cost a whole scan.
constexpr int kVisitsPerTurn = 256;

uint64_t EstimateBytes(const wire::LedgerRequest& record) {
  const wire::Request& r = record.request;
  uint64_t bytes = 512 + 4 * (r.prompt_tokens.size() + record.prompt_tokens.size()) +
                   r.prompt_text.size() + r.chat_messages_json.size();
  const auto add = [&bytes](const std::optional<wire::HandoffDescriptor>& handoff) {
    if (!handoff) return;
    bytes += 256 + 4 * handoff->blocks.size() + 16 * handoff->block_hashes.size();
    for (const wire::RankEndpoint& e : handoff->endpoints) bytes += 16 + e.endpoint.size();
  };
  add(r.handoff);
  add(record.handoff);
  for (const std::string& stop : r.stop_strings) bytes += stop.size();
  return bytes;
}

wire::Phase PhaseOf(Path path) {
  switch (path) {
    case Path::kContext:
      return wire::Phase::kContext;
    case Path::kGeneration:
      return wire::Phase::kGeneration;
    case Path::kFull:
    case Path::kWait:
      break;
  }
  return wire::Phase::kFull;
}

}  // namespace

Ask Controller::AskFor(const ledger::Entry& entry) const {
  const wire::LedgerRequest& record = entry.record;
  Ask ask;
  ask.kind = record.request.kind;
  ask.key = record.request.id.Key();
  // A model that nobody serves was let in while there was no instance to know better: any instance
  // will do, since its leader refuses by name, and the client hears of it.
  if (instances_->ModelMayBeServed(record.request.model)) ask.model = record.request.model;
  ask.prompt_tokens = record.request.prompt_tokens.size();
  ask.bytes = EstimateBytes(record);
  ask.alone = record.alone;
  if (record.state == RequestState::kHandoff) {
    ask.owner_layout = &record.handoff->layout;
  } else {
    ask.avoid = {record.context_instance, record.generation_instance};
    if (record.request.handoff) ask.owner_layout = &record.request.handoff->layout;
  }
  return ask;
}

void Controller::Route() {
  const bool waiting = ledger_->ready_count(ledger::Need::kFirstPhase) > 0 ||
                       ledger_->ready_count(ledger::Need::kGeneration) > 0;
  if (!waiting) {
    kept_.clear();
    return;
  }
  std::vector<InstanceView> views = instances_->Views(clock_->Now());
  std::erase_if(kept_, [this](const auto& kept) {
    Identity id;
    if (!Identity::FromKey(kept.second, &id)) return true;
    const ledger::Entry* entry = ledger_->Find(id);
    return entry == nullptr || !entry->ready;
  });
  for (InstanceView& view : views) {
    if (const auto kept = kept_.find(view.target.instance); kept != kept_.end()) {
      view.kept_for = kept->second;
    }
  }
  // Hand-offs hold blocks on the context side: they go first.
  RouteNeed(ledger::Need::kGeneration, &views);
  RouteNeed(ledger::Need::kFirstPhase, &views);
}

void Controller::RouteNeed(ledger::Need need, std::vector<InstanceView>* views) {
  const auto room = [views] {
    return std::any_of(views->begin(), views->end(), [](const InstanceView& view) {
      return view.usable && !view.exclusive && view.running < view.running_max;
    });
  };
  if (views->empty() || !room()) return;
  uint64_t ahead = 0;
  uint64_t ahead_max = 0;
  if (need == ledger::Need::kFirstPhase) {
    ahead = ledger_->CountIn(RequestState::kContext) + ledger_->CountIn(RequestState::kHandoff);
    ahead_max = ContextAhead(*views);
  }
  std::vector<ledger::Assigned> decisions;
  int visits = 0;
  ledger_->VisitReady(need, [&](const ledger::Entry& entry) {
    const Ask ask = AskFor(entry);
    const Path path = need == ledger::Need::kGeneration ? Path::kGeneration
                                                        : ChoosePath(*views, ask, options_.route);
    const bool too_far =
        path == Path::kContext && ask.kind == wire::RequestKind::kFull && ahead >= ahead_max;
    if (path != Path::kWait && !too_far) {
      const std::optional<size_t> chosen = ChooseInstance(*views, ask, path, options_.route.policy,
                                                          route_turn_, options_.check_pairing);
      if (chosen) {
        InstanceView& view = (*views)[*chosen];
        ++route_turn_;
        ++view.running;
        view.bytes += ask.bytes;
        if (ask.alone) view.exclusive = true;
        if (view.kept_for == ask.key) kept_.erase(view.target.instance);
        view.kept_for.clear();
        if (path == Path::kContext) ++ahead;
        decisions.push_back(
            {entry.record.request.id, entry.record.attempt, PhaseOf(path), view.target});
      } else if (ask.alone) {
        // Nothing is empty: keep one instance from taking more until it is.
        const std::optional<size_t> keep = ChooseToKeep(*views, ask, path, options_.check_pairing);
        if (keep) {
          (*views)[*keep].kept_for = ask.key;
          kept_[(*views)[*keep].target.instance] = ask.key;
        }
      }
    }
    return ++visits < kVisitsPerTurn && room();
  });
  for (ledger::Assigned& decision : decisions) Apply(decision);
}

void Controller::Tick() {
  const MonoTime now = clock_->Now();
  next_tick_ = now + options_.tick_interval;
  Apply(ledger::Tick{});
  JudgeInstances(now);
  if (now >= next_positions_) {
    next_positions_ = now + options_.positions_interval;
    WritePositions();
  }
  if (now >= next_stats_) LogStats(now);
}

// An instance is judged by its silence only while our own words come back: a broker that is away
// silences everybody.
void Controller::JudgeInstances(MonoTime now) {
  constexpr Nanos kProbeInterval = std::chrono::milliseconds(500);
  constexpr Nanos kProbeLate = std::chrono::seconds(2);
  if (!instances_->AnySuspect(now)) {
    if (!cut_off_) return;
  } else if (!probe_sent_ && now >= next_probe_) {
    next_probe_ = now + kProbeInterval;
    probe_sent_ = now;
    Send({options_.topics.Instances(), 0, "probe/" + uuid_, "probe", {}}, {});
  }
  if (probe_sent_ && now - *probe_sent_ >= kProbeLate && !cut_off_) {
    cut_off_ = true;
    ++stats_.cut_offs;
    LOG(kWarning, "the bus does not carry our own probe back since {} ms; nobody is judged",
        std::chrono::duration_cast<Millis>(now - *probe_sent_).count());
  }
  if (cut_off_) {
    if (probe_sent_) return;
    cut_off_ = false;
    LOG(kInfo, "the bus answers again; instances have a full heartbeat timeout");
    instances_->ForgiveAll(now);
    return;
  }
  if (now - probe_seen_ > kProbeInterval * 2) return;
  for (const ledger::InstanceGone& gone : instances_->Judge(now)) {
    ++stats_.deaths;
    LOG(kWarning, "instance '{}' epoch {} is gone: {}", gone.instance, gone.epoch.value,
        gone.crashed ? "silent or without progress for too long" : "drained");
    WriteInstance(*instances_->Find(gone.instance), std::nullopt);
    Apply(gone);
  }
}

std::string Controller::StatsLine() const {
  const ledger::Stats& l = ledger_->stats();
  uint64_t dropped = 0;
  for (const uint64_t n : l.dropped) dropped += n;
  return fmt::format(
      "in flight {} (ready {}, hand-off {}), instances {}, requests {}, ok {} error {} cancelled "
      "{} expired {} dead {}, repeats {}, conflicts {}, retries {}, dropped {}, dead letters {}, "
      "copies {}, pauses {}, losses {}{}",
      ledger_->in_flight(), ledger_->ready_count(ledger::Need::kFirstPhase),
      ledger_->ready_count(ledger::Need::kGeneration), instances_->alive_count(), stats_.requests,
      l.outcomes[0], l.outcomes[1], l.outcomes[2], l.outcomes[3], l.outcomes[4],
      l.repeats_in_flight + l.repeats_done, l.conflicts, l.retries, dropped, stats_.dead_letters,
      stats_.copies, stats_.pauses, stats_.losses, paused_ ? ", intake paused" : "");
}

void Controller::LogStats(MonoTime now) {
  next_stats_ = now + options_.stats_interval;
  // Heartbeats alone are no news.
  Stats news = stats_;
  news.heartbeats = logged_.heartbeats;
  if (news == logged_) return;
  logged_ = stats_;
  LOG(kInfo, "{}", StatsLine());
}

}  // namespace baton::controller
