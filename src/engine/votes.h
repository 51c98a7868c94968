// The leader's table of votes: what it still waits to hear from which rank, keyed by (admission,
// kind). Pure; one owner (the leader's engine thread).
//
// A vote is immutable: the first of a rank counts. All ranks OK commits; a failure decides at once,
// since no later vote can change it. Votes for what is not open (decided, or never asked) are
// dropped and counted. With nothing pending the table is empty and nothing is sent or waited for.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "src/base/clock.h"
#include "src/base/status.h"
#include "src/engine/plan.h"

namespace baton::engine {

struct Commit {
  AdmissionId admission;
  VoteKind kind = VoteKind::kReleased;
  Status status;  // the failure that decided, with the rank's name; OK: every rank agreed
};

struct LateVote {
  Rank rank;
  AdmissionId admission;
  VoteKind kind = VoteKind::kReleased;
  std::string request;
  Nanos age{};
  bool lost = false;  // twice the deadline: the blocks can be neither released nor leaked
};

class VoteTable {
 public:
  VoteTable(uint32_t ranks, Nanos deadline);

  // Starts to collect. `request` names it in messages. No deadline runs until Arm.
  void Open(AdmissionId admission, VoteKind kind, std::string request);
  // Nothing stands between the ranks and their votes any more: the deadline runs from `now`.
  // Repeating it changes nothing.
  void Arm(AdmissionId admission, VoteKind kind, MonoTime now);
  void Cast(const Vote& vote);
  // Stops to collect; votes that come later are dropped.
  void Close(AdmissionId admission, VoteKind kind);
  bool open(AdmissionId admission, VoteKind kind) const;

  // What was decided since the last call, in the order of decision.
  std::vector<Commit> TakeCommits() { return std::exchange(commits_, {}); }
  // Votes that passed the deadline, or twice the deadline, since the last call.
  std::vector<LateVote> TakeLate(MonoTime now);

  size_t size() const { return entries_.size(); }
  uint64_t dropped() const { return dropped_; }

 private:
  struct Entry {
    std::string request;
    std::vector<bool> voted;  // by rank
    uint32_t missing = 0;
    MonoTime armed = MonoTime::Max();
    int reported = 0;  // 1: late, 2: lost
  };
  using Key = std::pair<AdmissionId, VoteKind>;

  MonoTime Due(const Entry& entry) const;

  const uint32_t ranks_;
  const Nanos deadline_;
  std::map<Key, Entry> entries_;
  std::vector<Commit> commits_;
  uint64_t dropped_ = 0;
};

}  // namespace baton::engine
