// The keeper: one small process between a launcher and each program that it starts. It outlives the
// launcher by exactly as long as it takes to end the program and everything below it, so that a
// launcher killed with SIGKILL leaves nothing behind.
//
//   launcher --fork--> keeper --fork, exec--> program (own process group) --> ranks, keepers, ...
//
// The keeper is the subreaper of the whole tree: whatever loses its parent becomes its child, is
// reaped (no zombies) and is known to be gone only when wait() says so. It has a single thread,
// hence PR_SET_PDEATHSIG on the program means the keeper's death and not that of some thread.
//
// It is forked from processes that may have many threads and never executes another image, so
// RunKeeper and all it calls are async-signal-safe: no allocation, no locks, no C++ library.
#pragma once

#include <cstdint>

namespace baton::launch {

// Everything is resolved before the fork; pointers belong to the launcher's image.
struct KeeperPlan {
  const char* program = nullptr;  // path, never looked up in PATH
  char* const* argv = nullptr;
  char* const* environment = nullptr;
  int control_fd = -1;           // SOCK_SEQPACKET, see below; its end of file: the launcher is dead
  int output_fd = -1;            // the program's stdout and stderr
  const char* folder = nullptr;  // removed with all that is in it when the tree has ended, or null
  int64_t linger_ns = 0;    // what the rest of the tree gets to end after the program has ended
  bool term_below = false;  // SIGTERM goes to what the program started, not to itself
};

// launcher -> keeper: end the tree; SIGTERM now, SIGKILL after the grace.
struct KeeperOrder {
  int64_t grace_ns = 0;
};

enum class KeeperEvent : int32_t {
  kStarted = 0,     // value: the program's pid
  kExecFailed = 1,  // value: errno; the keeper exits
  kEnded = 2,       // value: wait status of the program; the tree is gone; the keeper exits
  kStuck = 3,       // as kEnded, but something below did not die of SIGKILL within 10 s
};

// keeper -> launcher.
struct KeeperReport {
  KeeperEvent event = KeeperEvent::kStarted;
  int32_t value = 0;
};

// The body of the forked keeper.
[[noreturn]] void RunKeeper(const KeeperPlan& plan);

// Removes a folder and all below it, at most 32 levels deep. Async-signal-safe. A path that is
// missing is fine. Does not follow links.
void RemoveFolder(const char* path);

}  // namespace baton::launch
