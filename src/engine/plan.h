// What the leader tells every rank: numbered plans, applied in order, never changed after they are
// sent. A plan is the only way that blocks and sequences change on a rank, so ranks cannot diverge.
// Plain values only; times are durations, since ranks share no clock.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/backend/backend.h"
#include "src/base/clock.h"
#include "src/base/ids.h"
#include "src/base/status.h"
#include "src/wire/messages.h"

namespace baton::engine {

// Blocks appended to the end of a sequence's table.
struct PlanBlocks {
  AdmissionId admission;
  std::vector<BlockId> blocks;
};

// As backend::StepRow, without the blocks, which each rank knows.
struct PlanRow {
  AdmissionId admission;
  uint32_t position = 0;
  std::vector<int32_t> tokens;
  int32_t input_from_row = -1;
  bool sample = false;
};

// Lets a peer fetch the leading blocks of a sequence, once plan `after` is executed.
struct PlanOffer {
  AdmissionId admission;
  uint64_t lease = 0;
  Attempt attempt;
  uint32_t tokens = 0;
  PlanNumber after;
  Nanos offer_timeout{};
  Nanos transfer_timeout{};
  Nanos request_left = Nanos::max();
};

// Pulls the first blocks of the sequence's table from a peer.
struct PlanFetch {
  AdmissionId admission;
  wire::HandoffDescriptor descriptor;
  uint32_t skip_blocks = 0;
  std::string receiver;
  Nanos time_left{};
};

struct PlanAbort {
  AdmissionId admission;
  std::string reason;
};

// No plan after `last_plan` has rows of it. The rank answers with its release vote.
struct PlanFinish {
  AdmissionId admission;
  PlanNumber last_plan;
};

// Applied in the order of the members.
struct Plan {
  PlanNumber number;
  std::vector<AdmissionId> releases;  // committed: every rank voted
  std::vector<backend::SequenceSpec> admissions;
  std::vector<PlanBlocks> blocks;
  std::vector<PlanFetch> fetches;
  uint64_t step = 0;  // 0 when there are no rows
  std::vector<PlanRow> rows;
  std::vector<PlanOffer> offers;
  std::vector<PlanAbort> aborts;  // of transfers
  std::vector<PlanFinish> finishes;

  bool empty() const {
    return releases.empty() && admissions.empty() && blocks.empty() && fetches.empty() &&
           rows.empty() && offers.empty() && aborts.empty() && finishes.empty();
  }
};

// ----------------------------------------------------------------------------- what comes back

enum class VoteKind : uint8_t {
  kReceived = 0,  // the fetch ended; OK: this rank holds every byte
  kOffered = 1,   // peers can ask for the lease here
  kReleased = 2,  // nothing on this rank needs the admission's blocks any more
};
inline std::string_view VoteKindName(VoteKind kind) {
  constexpr std::string_view kNames[] = {"KV received", "KV offered", "release"};
  return kNames[static_cast<size_t>(kind)];
}

// A rank's one statement of this kind about an admission.
struct Vote {
  Rank rank;
  AdmissionId admission;
  VoteKind kind = VoteKind::kReleased;
  Status status;
};

struct StepReport {
  PlanNumber plan;
  uint64_t digest = 0;         // of everything this rank executed up to this plan
  backend::StepOutput output;  // rows empty on ranks that do not sample
};

struct LeaseReport {
  AdmissionId admission;
  std::string end;  // how it ended, with the peer's name
};

struct RankReport {
  Rank rank;
  std::vector<StepReport> steps;  // in order of plans
  std::vector<Vote> votes;
  std::vector<LeaseReport> leases;  // that ended
  uint64_t fetched_bytes = 0;
};

}  // namespace baton::engine
