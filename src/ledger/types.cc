#include "src/ledger/types.h"

namespace baton::ledger {

std::string_view DropName(Drop reason) {
  switch (reason) {
    case Drop::kUnknownRequest:
      return "unknown_request";
    case Drop::kAlreadyDone:
      return "already_done";
    case Drop::kTerminalPending:
      return "terminal_pending";
    case Drop::kAttempt:
      return "attempt";
    case Drop::kControllerEpoch:
      return "controller_epoch";
    case Drop::kInstance:
      return "instance";
    case Drop::kInstanceEpoch:
      return "instance_epoch";
    case Drop::kLease:
      return "lease";
    case Drop::kPhase:
      return "phase";
    case Drop::kAssignment:
      return "assignment";
    case Drop::kCount:
      break;
  }
  return "?";
}

std::string KeyOf(const wire::LedgerRequest& record) {
  const wire::Request& request = record.request;
  if (!request.id.request_id.empty()) return request.id.Key();
  return "mark/" + Identity{request.id.tenant, request.job}.Key();
}

bool IsReservedTenant(std::string_view tenant) {
  return tenant == "pos" || tenant == "claim" || tenant == "inst" || tenant == "mark";
}

}  // namespace baton::ledger
