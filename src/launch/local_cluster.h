// A cluster on this machine: one controller and some instances as child processes, for `baton
// batch`, tests and examples. Supervises them: a process that ends by itself is started again with
// back-off, a bounded number of times a minute, then the cluster has failed. Nothing of it outlives
// the process that made it (process.h).
//
// Children run `<binary> controller|instance --config <file>`; the file, in a private folder with
// mode 0600, carries every setting, secrets included, so that no command line shows them.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "src/base/clock.h"
#include "src/base/result.h"
#include "src/config/config.h"
#include "src/launch/process.h"

namespace baton::launch {

struct InstanceSpec {
  std::string name;  // with count > 1: "<name>-<n>"
  std::string role;  // "context", "generation", "mixed"
  uint32_t count = 1;
};

struct LocalClusterSpec {
  std::string binary;     // path of baton; empty: this program's own file
  config::Config config;  // valid, bus.bootstrap set; name and role are filled in for each
  bool controller = true;
  std::vector<InstanceSpec> instances;
  Environment environment;  // on top of BaseEnvironment(), e.g. BATON_FAULTS
};

struct ProcessInfo {
  std::string name;
  pid_t pid = -1;  // of `baton controller` or `baton instance`; -1 while it waits for its restart
  uint32_t restarts = 0;
};

// The topology that config.cluster asks for: context-0, generation-0, mixed-0, ...
std::vector<InstanceSpec> TopologyOf(const config::Cluster& cluster);

// Thread-safe. Owns a supervisor thread.
class LocalCluster {
 public:
  // Returns once every process is started; that they serve is seen on the bus.
  static Result<std::unique_ptr<LocalCluster>> Start(LocalClusterSpec spec);
  // Stop(3 s).
  virtual ~LocalCluster() = default;

  // Not OK once the cluster has failed: names the process, its exit code and the limit. It stays
  // so. The tail of the process's log is on stderr then.
  virtual Status health() const = 0;
  virtual std::vector<ProcessInfo> Processes() const = 0;
  // Instances drain for at most `grace` and end, then the controller; returns when all is gone: at
  // most 2 * (grace + 15 s).
  virtual void Stop(Nanos grace) = 0;
};

}  // namespace baton::launch
