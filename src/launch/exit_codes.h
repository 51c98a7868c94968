// Exit codes of every baton command; part of the user's interface (`baton --help` lists them).
#pragma once

#include "src/base/status.h"

namespace baton::launch {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;         // ran, but rows or requests failed
inline constexpr int kExitUsage = 2;          // wrong option, configuration or input; do not retry
inline constexpr int kExitEnvironment = 3;    // broker, model, port, MPI or a peer is not there
inline constexpr int kExitReplaced = 4;       // another process took this one's place (fenced)
inline constexpr int kExitInternal = 70;      // a bug
inline constexpr int kExitInterrupted = 130;  // stopped by a signal before the end

// OK is kExitOk.
inline int ExitCodeOf(const Status& status) {
  switch (status.code()) {
    case StatusCode::kOk:
      return kExitOk;
    case StatusCode::kInvalidArgument:
      return kExitUsage;
    case StatusCode::kCancelled:
      return kExitInterrupted;
    case StatusCode::kAborted:
      return kExitReplaced;
    case StatusCode::kInternal:
      return kExitInternal;
    default:
      return kExitEnvironment;
  }
}

}  // namespace baton::launch
