#include "src/base/status.h"

#include <array>

namespace baton {
namespace {

constexpr std::array<std::string_view, 12> kNames = {"OK",
                                                     "INVALID_ARGUMENT",
                                                     "NOT_FOUND",
                                                     "ALREADY_EXISTS",
                                                     "RESOURCE_EXHAUSTED",
                                                     "FAILED_PRECONDITION",
                                                     "UNAVAILABLE",
                                                     "DEADLINE_EXCEEDED",
                                                     "CANCELLED",
                                                     "ABORTED",
                                                     "DATA_LOSS",
                                                     "INTERNAL"};

}  // namespace

std::string_view StatusCodeName(StatusCode code) {
  const auto index = static_cast<size_t>(code);
  return index < kNames.size() ? kNames[index] : "INTERNAL";
}

StatusCode StatusCodeFromName(std::string_view name) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<StatusCode>(i);
  }
  return StatusCode::kInternal;
}

std::string Status::ToString() const {
  std::string text(StatusCodeName(code_));
  if (!message_.empty()) text.append(": ").append(message_);
  return text;
}

Status Status::WithContext(std::string_view context) const {
  if (ok()) return *this;
  return {code_, std::string(context) + ": " + message_};
}

}  // namespace baton
