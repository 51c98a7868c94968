// Fault points in product code. MAYBE_FAULT("transfer.send.cut") is false at the cost of one
// relaxed load unless a plan names the point. A plan is text: "point=action[@hit][,...]", from the
// environment variable BATON_FAULTS or from a test:
//
//   transfer.send.cut=fire@3     the third time the point is reached
//   engine.step=kill@100         SIGKILL to this process then
//   transfer.copy=stop@1         SIGSTOP to this process then
//   bus.produce=fire             each time
//
// Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "src/base/status.h"

namespace baton {

// Replaces the plan in force; empty text means none. kInvalidArgument names the bad entry.
Status SetFaultPlan(std::string_view plan);
// Reads BATON_FAULTS; for main().
Status SetFaultPlanFromEnvironment();
// How often `point` was reached while a plan was in force.
uint64_t FaultPointHits(std::string_view point);

namespace fault_internal {
extern std::atomic<bool> g_armed;
bool Reached(std::string_view point);
}  // namespace fault_internal

}  // namespace baton

#define MAYBE_FAULT(point)                                             \
  (::baton::fault_internal::g_armed.load(std::memory_order_relaxed) && \
   ::baton::fault_internal::Reached(point))
