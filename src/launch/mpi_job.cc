#include "src/launch/mpi_job.h"

#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>

#include "src/launch/keeper.h"
#include "src/launch/private_file.h"
#include "src/launch/process.h"

namespace baton::launch {
namespace {

constexpr uint32_t kRanksMax = 1024;
// Session files hold unix socket names of at most 108 characters.
constexpr size_t kBaseFolderMax = 40;
constexpr Nanos kStopGrace = std::chrono::seconds(3);
constexpr Nanos kPidPoll = std::chrono::milliseconds(2);

bool IsMemory(const char* path) {
  struct statfs info {};
  return statfs(path, &info) == 0 && info.f_type == TMPFS_MAGIC && access(path, W_OK) == 0;
}

// Where shared segments live: a short TMPDIR as the user's wish, then memory rather than disk.
// TEST_TMPDIR is too long, and a Bazel sandbox has its own /tmp in memory instead.
std::string BaseFolder() {
  const char* wish = getenv("TMPDIR");
  if (wish != nullptr && strlen(wish) <= kBaseFolderMax && access(wish, W_OK) == 0) return wish;
  return IsMemory("/tmp") || !IsMemory("/dev/shm") ? "/tmp" : "/dev/shm";
}

std::vector<std::string> MpirunLine(const MpiJobSpec& spec) {
  // Quiet: a failing rank says itself why, in one line; mpirun would add a page.
  std::vector<std::string> line = {
      "mpirun",  "--quiet", "--oversubscribe", "--bind-to", "none",
      "--stdin", "none",    "--mca",           "pml",       "ob1",
      "--mca",   "btl",     "self,vader",      "-n",        std::to_string(spec.ranks)};
  line.insert(line.end(), spec.argv.begin(), spec.argv.end());
  return line;
}

// A private folder keeps jobs apart that run at once: in sandboxes process ids repeat, and with
// them the names that Open MPI would choose in /tmp and /dev/shm.
Environment MpirunEnvironment(const MpiJobSpec& spec, const std::string& folder) {
  Environment environment;
  for (auto& variable : BaseEnvironment()) {
    if (variable.first != "TMPDIR") environment.push_back(std::move(variable));
  }
  environment.insert(environment.end(), {{"TMPDIR", folder},
                                         {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                                         {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
                                         {"OMPI_MCA_orte_tmpdir_base", folder},
                                         {"OMPI_MCA_btl_vader_backing_directory", folder},
                                         {"OMPI_MCA_plm", "isolated"},  // this host only, no ssh
                                         {"OMPI_MCA_oob_tcp_if_include", "lo"},
                                         {"BATON_JOB_FOLDER", folder}});
  environment.insert(environment.end(), spec.environment.begin(), spec.environment.end());
  return environment;
}

class MpirunJob : public MpiJob {
 public:
  MpirunJob(std::string name, uint32_t ranks, std::string folder,
            std::unique_ptr<ChildProcess> process)
      : name_(std::move(name)),
        ranks_(ranks),
        folder_(std::move(folder)),
        process_(std::move(process)) {}
  ~MpirunJob() override { process_->Stop(kStopGrace); }

  pid_t pid() const override { return process_->pid(); }
  std::optional<int> Poll() override { return process_->Poll(); }
  Result<int> Wait(Nanos timeout) override { return process_->Wait(timeout); }
  void Stop(Nanos grace) override { process_->Stop(grace); }

  Result<std::vector<pid_t>> RankPids(Nanos timeout) override {
    const MonoTime deadline = RealClock().Now() + timeout;
    std::vector<pid_t> pids;
    while (pids.size() < ranks_) {
      const auto rank = pids.size();
      // Written under another name and moved here: it is there whole or not at all.
      std::ifstream file(fmt::format("{}/rank-{}.pid", folder_, rank));
      pid_t pid = 0;
      if (file >> pid) {
        pids.push_back(pid);
        continue;
      }
      if (RealClock().Now() > deadline) {
        return DeadlineExceededError(
            fmt::format("{}: rank {} of {} has not reported its pid", name_, rank, ranks_));
      }
      const Result<int> ended = process_->Wait(kPidPoll);
      if (ended.ok()) {
        return UnavailableError(
            fmt::format("{}: the job ended with exit code {} before rank {} "
                        "reported its pid",
                        name_, *ended, rank));
      }
    }
    return pids;
  }

 private:
  const std::string name_;
  const uint32_t ranks_;
  const std::string folder_;
  std::unique_ptr<ChildProcess> process_;
};

}  // namespace

Result<std::unique_ptr<MpiJob>> MpiJob::Start(const MpiJobSpec& spec) {
  if (spec.argv.empty()) return InvalidArgumentError(spec.name + ": no program given");
  if (spec.ranks < 1 || spec.ranks > kRanksMax) {
    return InvalidArgumentError(
        fmt::format("{}: {} ranks; 1 to {} are possible", spec.name, spec.ranks, kRanksMax));
  }
  ASSIGN_OR_RETURN(const std::string folder, MakePrivateFolder(BaseFolder()));
  for (const auto& [name, text] : spec.files) {
    const Status written = WritePrivateFile(fmt::format("{}/{}", folder, name), text);
    if (!written.ok()) {
      RemoveFolder(folder.c_str());
      return written;
    }
  }
  ProcessSpec process;
  process.name = spec.name;
  process.argv = MpirunLine(spec);
  process.environment = MpirunEnvironment(spec, folder);
  process.folder = folder;
  process.term_below = true;  // mpirun would give its ranks only one second
  Result<std::unique_ptr<ChildProcess>> child = ChildProcess::Start(process);
  if (!child.ok()) {
    RemoveFolder(folder.c_str());
    return child.status();
  }
  std::unique_ptr<MpiJob> job =
      std::make_unique<MpirunJob>(spec.name, spec.ranks, folder, std::move(child).value());
  return job;
}

}  // namespace baton::launch
