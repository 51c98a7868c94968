// Starts and ends one MPI job from outside. Every mpirun of the project goes through here: private
// session and shared-memory folders, the settings that keep parallel jobs apart, and an end that is
// certain (TERM, KILL after 3 s, leftovers removed). One owner thread.
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

struct MpiJobSpec {
  std::string name;  // for logs and folder names
  uint32_t ranks = 1;
  std::vector<std::string> argv;  // the program and its arguments, the same on every rank
  std::vector<std::pair<std::string, std::string>> environment;  // on top of a small fixed set
  // (name, text): written into the job's private folder before it starts, mode 0600. Ranks find
  // the folder in BATON_JOB_FOLDER and may use it for sockets too; its path has at most 60
  // characters, and it goes with the job, whatever kills whom.
  std::vector<std::pair<std::string, std::string>> files;
};

class MpiJob {
 public:
  static Result<std::unique_ptr<MpiJob>> Start(const MpiJobSpec& spec);
  // Stops it as Stop(3 s) does.
  virtual ~MpiJob() = default;
  // mpirun's pid; it leads its own process group.
  virtual pid_t pid() const = 0;
  // Pids of rank processes by rank; waits until all are known.
  virtual Result<std::vector<pid_t>> RankPids(Nanos timeout) = 0;
  // Exit status once it has ended: 0, the exit code, or 128 + signal. Never blocks.
  virtual std::optional<int> Poll() = 0;
  virtual Result<int> Wait(Nanos timeout) = 0;
  // TERM, then KILL to everything of the job after `grace`; removes its folders and segments.
  virtual void Stop(Nanos grace) = 0;
};

}  // namespace baton::launch
