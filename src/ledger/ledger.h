// The life of every request, as a pure state machine: (state, event, now) -> (state, effects). No
// I/O, thread, clock or random number; the same events give the same effects. The controller, the
// simulator and recovery drive this one implementation.
//
// Owner: the controller's thread. Everything that decides what happens next is inside the records
// it writes (wire::LedgerRequest), so Restore() of the last record per key gives the same state
// back. Volatile, and found anew by a restart: a terminal record that is on its way
// (TerminalSeen() tells whether it arrived) and copies owed to repeats.
//
// Meaning that this machine gives to fields of wire::LedgerRequest:
//   parked_until_ms   kParked: when the retry is due. cancel_requested on assigned work: when the
//                     result is published without the instance's answer. kDone and kept cancels:
//                     when the record may be forgotten.
//   context_*, generation_* of kReceived and kParked: the attempt before this one, to be avoided.
//   kFull             both name the instance.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "src/ledger/types.h"

namespace baton::ledger {

struct Pending {  // the terminal record that is on its way
  wire::Outcome outcome = wire::Outcome::kOk;
  wire::Timings timings;
  uint32_t cached_tokens = 0;
  bool replaced = false;  // by a small error record
  std::string why_replaced;
};

struct Waiter {
  std::string correlation_id;
  std::string reply_topic;
  friend bool operator==(const Waiter&, const Waiter&) = default;
};

struct ReadyKey {
  int64_t order_ms = 0;
  uint64_t sequence = 0;
  friend auto operator<=>(const ReadyKey&, const ReadyKey&) = default;
};

enum class Need : uint8_t { kFirstPhase = 0, kGeneration = 1 };

struct Entry {
  wire::LedgerRequest record;
  std::optional<Pending> pending;
  std::vector<Waiter> waiters;
  // The intake record is settled only by kDone: the request ended before it was ever recorded.
  bool settle_at_done = false;
  uint64_t sequence = 0;  // of arrival in this process
  int64_t wake_ms = INT64_MAX;
  std::optional<wire::RequestState> counted;  // in the ledger's counts
  std::optional<ReadyKey> ready;
  Need ready_need = Need::kFirstPhase;
  wire::Timings timings;  // of the phase that just ended, not yet in the record
};

// A finished request, as small as repeats allow.
struct Done {
  uint64_t content_hash = 0;  // 0: known from its result only, equals anything
  int32_t partition = -1;
  int64_t offset = -1;
  int64_t forget_ms = 0;
  Source source;
  wire::Outcome outcome = wire::Outcome::kOk;
  Attempt attempt;
  friend bool operator==(const Done&, const Done&) = default;
};

class Ledger {
 public:
  Ledger(const Limits& limits, ControllerEpoch epoch) : limits_(limits), epoch_(epoch) {}

  Effects Apply(const Event& event, int64_t now_ms);

  // Recovery, in this order: every record (in log order; the last of a key wins), every tombstone,
  // the terminal records found on the results topic, then Resume once.
  void Restore(const wire::LedgerRequest& record);
  void RestoreTombstone(const std::string& key);
  Effects TerminalSeen(const wire::ResultRecord& record, int32_t partition, int64_t offset,
                       int64_t now_ms);
  // Takes the new epoch, sends every running assignment again under it and repeats cancels. An
  // instance answers a repeated assignment with its latest event.
  Effects Resume(ControllerEpoch epoch, int64_t now_ms);

  // The stored position of an intake partition: finished requests above it are not forgotten.
  void PositionStored(const std::string& topic, int32_t partition, int64_t offset);

  // Visits what waits for an instance, most urgent first, until `visit` returns false. Nothing may
  // be applied during the visit.
  void VisitReady(Need need, const std::function<bool(const Entry&)>& visit) const;
  size_t ready_count(Need need) const { return ready_[static_cast<int>(need)].size(); }

  bool AtCapacity() const {
    return entries_.size() >= limits_.in_flight_max || done_.size() >= limits_.done_max;
  }
  // Fraction of the bound in flight, in percent.
  size_t FillPercent() const;
  size_t in_flight() const { return entries_.size(); }
  size_t done_count() const { return done_.size(); }
  size_t CountIn(wire::RequestState state) const { return counts_[static_cast<size_t>(state)]; }
  // Lives of instances that requests in flight name, each once.
  std::vector<Target> InstancesInUse() const;
  const Stats& stats() const { return stats_; }
  ControllerEpoch epoch() const { return epoch_; }

  // For tests and tools.
  const Entry* Find(const Identity& id) const;
  const Done* FindDone(const Identity& id) const;
  // The durable part of everything in flight, of finished requests and of kept cancels.
  struct Snapshot {
    std::map<Identity, wire::LedgerRequest> in_flight;
    std::map<Identity, Done> done;
    std::map<std::string, int64_t> marks;
    friend bool operator==(const Snapshot&, const Snapshot&) = default;
  };
  Snapshot TakeSnapshot() const;

 private:
  struct Mark {
    int64_t forget_ms = 0;
    int64_t timestamp_ms = 0;  // group marks only
  };
  using GroupKey = std::pair<std::string, std::string>;  // tenant, job

  // events.cc: one per event.
  void On(const Submitted& event);
  void On(const Assigned& event);
  void On(const FromInstance& event);
  void On(const InstanceGone& event);
  void On(const CancelAsked& event);
  void On(const GroupCancelAsked& event);
  void On(const Tick& event);
  void On(const TerminalPublished& event);
  void On(const TerminalRefused& event);
  void On(const RecordRefused& event);
  void On(const AssignmentRefused& event);
  void OnRepeat(const Submitted& event, Entry& entry);
  void OnRepeatOfDone(const Submitted& event, Done& done);
  void Conflict(const Submitted& event);

  // transitions.cc: what happens to one request.
  void OnContextDone(Entry& entry, const wire::Event& event);
  void OnFailed(Entry& entry, const wire::ErrorInfo& error);
  void OnStopped(Entry& entry, const wire::Event& event);
  void OnGoneWhileRunning(Entry& entry, bool counts);
  void StartCancel(Entry& entry);
  void EndByClock(Entry& entry);
  void Retry(Entry& entry, int64_t due_ms);
  void EndWithError(Entry& entry, wire::Outcome outcome, wire::ErrorInfo error);
  void End(Entry& entry, wire::Outcome outcome, wire::Output output,
           std::optional<wire::ErrorInfo> error);
  void PublishSmall(const Entry& entry);
  void SendTo(const Entry& entry, bool context_side, wire::AssignmentKind kind);
  void SendRun(const Entry& entry);
  void CancelSides(const Entry& entry);
  void Write(Entry& entry);
  std::optional<Drop> WhyStale(const Entry& entry, const wire::Event& event) const;

  Entry* FindOpen(const Identity& id);  // counts and returns null when done, pending or unknown
  std::vector<Identity> OpenMatching(const std::function<bool(const Entry&)>& match) const;
  void Index(Entry& entry);
  void Unindex(Entry& entry);
  void Emit(const Identity& id, Action action) { effects_.push_back({id, std::move(action)}); }
  void Count(Drop reason) { ++stats_.dropped[static_cast<size_t>(reason)]; }
  void KeepMark(const Identity& id);
  void DropMark(const Identity& id);
  void Finish(Entry& entry, const Pending& how, int32_t partition, int64_t offset);
  void Remember(const Identity& id, Done done);
  bool GroupCancelled(const wire::Request& request, int64_t timestamp_ms) const;
  void ForgetOld();

  const Limits limits_;
  ControllerEpoch epoch_;
  Stats stats_;
  int64_t now_ms_ = 0;  // of the event being applied
  Effects effects_;     // of the event being applied
  uint64_t next_sequence_ = 1;
  std::unordered_map<Identity, Entry> entries_;
  std::unordered_map<Identity, Done> done_;
  std::deque<std::pair<int64_t, Identity>> done_order_;  // by forget time
  std::map<Identity, Mark> marks_;
  std::map<GroupKey, Mark> group_marks_;
  std::set<std::pair<int64_t, Identity>> mark_order_;  // of marks_, by forget time
  std::map<ReadyKey, Entry*> ready_[2];
  std::set<std::pair<int64_t, Identity>> wakes_;
  std::array<size_t, 7> counts_ = {};  // by wire::RequestState, without those that are ending
  std::map<std::pair<std::string, int32_t>, int64_t> stored_;
};

}  // namespace baton::ledger
