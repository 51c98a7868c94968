// One child process with everything below it, behind a keeper (keeper.h): the tree ends with the
// launcher whatever happens to it, stopped and orphaned processes included, and leaves no zombies.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/base/clock.h"
#include "src/base/result.h"

namespace baton::launch {

using Environment = std::vector<std::pair<std::string, std::string>>;

struct ProcessSpec {
  std::string name;               // for messages
  std::vector<std::string> argv;  // argv[0] with a '/' is a path, otherwise looked up in PATH
  Environment environment;        // all of it; nothing is inherited
  // Where stdout and stderr go; not taken over. Negative: both go to the launcher's stderr. The
  // launcher's stdout is never touched.
  int output_fd = -1;
  std::string folder;  // removed with everything in it once the tree has ended; empty: none
  // What processes below get to end by themselves once the program has ended, before SIGKILL.
  Nanos linger{};
  // SIGTERM goes to what the program started and not to the program (mpirun ends with its ranks).
  bool term_below = false;
};

// One owner thread. The destructor stops the tree with a grace of 3 s.
class ChildProcess {
 public:
  // kNotFound when there is no such program; kUnavailable when the system refuses.
  static Result<std::unique_ptr<ChildProcess>> Start(const ProcessSpec& spec);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  // The program's; it leads its own process group.
  pid_t pid() const { return pid_; }
  // Once the whole tree has ended: the program's exit code, or 128 + signal. Never blocks.
  std::optional<int> Poll();
  // kDeadlineExceeded names the process.
  Result<int> Wait(Nanos timeout);
  // SIGTERM now, SIGKILL after `grace`; zero: SIGKILL at once. Does not wait.
  void RequestStop(Nanos grace);
  // RequestStop, then waits until the tree is gone: at most grace + linger + 12 s.
  void Stop(Nanos grace);

 private:
  ChildProcess(const ProcessSpec& spec, pid_t keeper, int control_fd);
  Status AwaitStart();
  void ReadReport();
  void KeeperLost();

  const std::string name_;
  const std::string folder_;
  const Nanos linger_;
  pid_t keeper_;
  int control_fd_;
  pid_t pid_ = -1;
  int exec_error_ = 0;
  std::optional<int> exit_;
};

// The variables that a child of ours may need: paths, locale, devices, sanitizer options, and all
// that start with BATON_. Settings of an outer MPI job are left out on purpose.
Environment BaseEnvironment();
// Path of this program's own file.
Result<std::string> SelfExecutable();

}  // namespace baton::launch
