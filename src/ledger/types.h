// What goes into the request ledger (events) and what comes out (effects), as plain values. Times
// are wall-clock milliseconds: they are compared with deadlines that cross processes, and they
// survive a restart inside ledger records.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "src/base/ids.h"
#include "src/base/status.h"
#include "src/wire/messages.h"

namespace baton::ledger {

// Where an input record lies; settling it lets the reader's stored position pass it.
struct Source {
  std::string topic;
  int32_t partition = -1;
  int64_t offset = -1;
  friend bool operator==(const Source&, const Source&) = default;
};

// One life of an instance, as its grant named it.
struct Target {
  std::string instance;
  InstanceEpoch epoch;
  LeaseNumber lease;
  friend bool operator==(const Target&, const Target&) = default;
};

// ------------------------------------------------------------------------------- events

struct Submitted {
  wire::Request request;
  uint64_t content_hash = 0;  // wire::ContentHash of the request as submitted; never 0
  Source source;
  int64_t timestamp_ms = 0;  // of the record: compared with cancels of whole jobs
  uint64_t fresh_seed = 0;   // becomes the seed when the request has none
  // The request cannot be served as it stands: it ends at once with this error.
  std::optional<wire::ErrorInfo> refusal;
};

// The router's decision. Ignored and counted when the request no longer waits for that phase.
struct Assigned {
  Identity id;
  Attempt attempt;
  wire::Phase phase = wire::Phase::kFull;
  Target target;
};

struct FromInstance {
  wire::Event event;
};

// A life of an instance is over. `crashed` is false for drains and orderly ends. Deaths are counted
// for the requests of the step that ran at a crash, which may have caused it.
struct InstanceGone {
  std::string instance;
  InstanceEpoch epoch;
  bool crashed = false;
  std::vector<Identity> in_step;
};

struct CancelAsked {
  Identity id;
  Source source;
};

// All requests of a job, or of a tenant when `job` is empty, submitted up to `timestamp_ms`.
struct GroupCancelAsked {
  std::string tenant;
  std::string job;
  int64_t timestamp_ms = 0;
  Source source;
};

struct Tick {};

// The terminal record is on the results topic: the commit point.
struct TerminalPublished {
  Identity id;
  int32_t partition = -1;
  int64_t offset = -1;
};

// The terminal record can never be written as it is (size, rights).
struct TerminalRefused {
  Identity id;
  Status why;
};

// A ledger record that can never be written as it is (size).
struct RecordRefused {
  Identity id;
  Status why;
};

// An assignment that could not be written to its slot.
struct AssignmentRefused {
  wire::Address to;
  Status why;
};

using Event =
    std::variant<Submitted, Assigned, FromInstance, InstanceGone, CancelAsked, GroupCancelAsked,
                 Tick, TerminalPublished, TerminalRefused, RecordRefused, AssignmentRefused>;

// ------------------------------------------------------------------------------- effects
//
// Effects of one identity are carried out in order, each after the one before it is acknowledged.
// So nothing leaves the controller before the ledger record that explains it.

struct WriteRecord {
  wire::LedgerRequest record;  // under KeyOf(record)
};
struct WriteTombstone {
  std::string key;
};
struct SendAssignment {
  wire::Assignment assignment;
};
// Answered by TerminalPublished or TerminalRefused.
struct PublishTerminal {
  wire::ResultRecord record;
};
// A copy of the terminal record that lies at (partition, offset) of the results topic.
struct PublishCopy {
  int32_t partition = -1;
  int64_t offset = -1;
  std::string correlation_id;
  std::string reply_topic;  // empty: the results topic
};
struct PublishConflict {
  wire::ResultRecord record;
  std::string reply_topic;
};
struct WriteDeadLetter {
  wire::Request request;
  Source source;
  std::string stage;
  std::string code;
  std::string message;
};
struct Settle {
  Source source;
};
// The ledger's DONE of a terminal record is acknowledged: the results checkpoint may pass it.
struct SettleResult {
  int32_t partition = -1;
  int64_t offset = -1;
};

using Action = std::variant<WriteRecord, WriteTombstone, SendAssignment, PublishTerminal,
                            PublishCopy, PublishConflict, WriteDeadLetter, Settle, SettleResult>;

struct Effect {
  Identity id;  // the chain it belongs to; group marks have an empty request id
  Action action;
};
using Effects = std::vector<Effect>;

// ------------------------------------------------------------------------------- limits, counters

struct Limits {
  size_t in_flight_max = 4096;
  size_t done_max = 1'000'000;  // finished identities remembered
  size_t marks_max = 100'000;   // cancels kept for identities that have not arrived
  size_t waiters_max = 8;       // copies owed per request to repeats that came while it ran
  uint32_t failures_max = 3;    // reported by instances
  int64_t backoff_ms = 200;     // doubles with each failure
  int64_t backoff_max_ms = 5'000;
  int64_t dedupe_window_ms = 24ll * 3600 * 1000;
  int64_t cancel_kept_ms = 10ll * 60 * 1000;
  // How long an instance may take to answer a cancel before the result is published without it.
  int64_t cancel_wait_ms = 2'000;
  // An instance ends an expired request by itself; after this slack the controller does.
  int64_t deadline_slack_ms = 500;
  // Ageing: a class waits for an instance as if it had come that much later.
  std::array<int64_t, 3> class_delay_ms = {0, 2'000, 10'000};
};

// Why something that arrived was ignored.
enum class Drop : uint8_t {
  kUnknownRequest,
  kAlreadyDone,
  kTerminalPending,
  kAttempt,
  kControllerEpoch,
  kInstance,
  kInstanceEpoch,
  kLease,
  kPhase,
  kAssignment,  // a router's decision that came too late
  kCount
};
std::string_view DropName(Drop reason);

struct Stats {
  uint64_t received = 0;
  uint64_t refused = 0;
  uint64_t repeats_in_flight = 0;
  uint64_t repeats_done = 0;
  uint64_t conflicts = 0;
  uint64_t cancels = 0;
  uint64_t cancels_kept = 0;
  uint64_t assignments = 0;
  uint64_t failures = 0;
  uint64_t retries = 0;
  uint64_t deaths = 0;
  uint64_t quarantined = 0;
  uint64_t results_replaced = 0;
  uint64_t marks_evicted = 0;
  uint64_t waiters_refused = 0;
  std::array<uint64_t, 5> outcomes = {};  // by wire::Outcome
  std::array<uint64_t, static_cast<size_t>(Drop::kCount)> dropped = {};
  friend bool operator==(const Stats&, const Stats&) = default;
};

// The ledger topic's key: the identity, or "mark/<tenant>/<job>" for the cancel of a group.
std::string KeyOf(const wire::LedgerRequest& record);
// Tenants whose keys would collide with the ledger's own ("pos", "claim", "inst", "mark").
bool IsReservedTenant(std::string_view tenant);

}  // namespace baton::ledger
