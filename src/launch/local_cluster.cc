#include "src/launch/local_cluster.h"

#include <fmt/format.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "src/base/log.h"
#include "src/launch/exit_codes.h"
#include "src/launch/keeper.h"
#include "src/launch/log_file.h"
#include "src/launch/private_file.h"

namespace baton::launch {
namespace {

constexpr Nanos kTick = std::chrono::milliseconds(50);
constexpr Nanos kRestartWindow = std::chrono::minutes(1);
constexpr Nanos kBackoffFirst = std::chrono::milliseconds(100);
constexpr int kBackoffDoublings = 5;  // 3.2 s at most
// An instance's own keeper ends its MPI job (TERM, 3 s, KILL) when the instance is killed.
constexpr Nanos kLinger = std::chrono::seconds(2);
constexpr Nanos kDestructorGrace = std::chrono::seconds(3);
constexpr size_t kTailLines = 15;
constexpr uint32_t kProcessesMax = 256;

// One child in its life after life. Used under the cluster's mutex.
struct Member {
  std::string name;
  std::string command;  // "controller" or "instance"
  std::string config_text;
  std::optional<LogFile> log;  // none: passed through to stderr
  std::unique_ptr<ChildProcess> process;
  std::deque<MonoTime> restarts;  // within the last minute
  uint32_t restarts_total = 0;
  MonoTime start_at;  // while there is no process
};

class SupervisedCluster : public LocalCluster {
 public:
  explicit SupervisedCluster(LocalClusterSpec spec) : spec_(std::move(spec)) {}
  ~SupervisedCluster() override { Stop(kDestructorGrace); }

  Status Launch() {
    std::lock_guard lock(mutex_);
    if (spec_.controller)
      BATON_RETURN_IF_ERROR(Add("controller", spec_.config.controller.name, spec_.config));
    for (const InstanceSpec& instance : spec_.instances) {
      for (uint32_t i = 0; i < instance.count; ++i) {
        config::Config config = spec_.config;
        config.instance.role = instance.role;
        config.instance.name =
            instance.count > 1 ? fmt::format("{}-{}", instance.name, i) : instance.name;
        BATON_RETURN_IF_ERROR(Add("instance", config.instance.name, config));
      }
    }
    supervisor_ = std::thread([this] { Supervise(); });
    return OkStatus();
  }

  Status health() const override {
    std::lock_guard lock(mutex_);
    return health_;
  }

  std::vector<ProcessInfo> Processes() const override {
    std::lock_guard lock(mutex_);
    std::vector<ProcessInfo> infos;
    for (const Member& member : members_) {
      infos.push_back({member.name, member.process != nullptr ? member.process->pid() : -1,
                       member.restarts_total});
    }
    return infos;
  }

  void Stop(Nanos grace) override {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    if (supervisor_.joinable()) supervisor_.join();
    StopAll("instance", grace);  // first: their last results still pass through the controller
    StopAll("controller", grace);
  }

 private:
  Status Add(const std::string& command, const std::string& name, const config::Config& config) {
    if (members_.size() == kProcessesMax) {
      return InvalidArgumentError(fmt::format("more than {} processes", kProcessesMax));
    }
    Member member;
    member.name = name;
    member.command = command;
    member.config_text = config::ToToml(config, /*redact=*/false);
    const std::string& folder = spec_.config.cluster.log_folder;
    ASSIGN_OR_RETURN(LogFile log,
                     LogFile::Open(folder.empty() ? "" : fmt::format("{}/{}.log", folder, name)));
    member.log.emplace(std::move(log));
    BATON_RETURN_IF_ERROR(StartMember(&member));
    members_.push_back(std::move(member));
    return OkStatus();
  }

  Status StartMember(Member* member) {
    ASSIGN_OR_RETURN(const std::string folder, MakePrivateFolder("/tmp"));
    const std::string file = folder + "/config.toml";
    Status status = WritePrivateFile(file, member->config_text);
    if (status.ok()) status = StartProcess(member, folder, file);
    // Once it runs, its keeper removes the folder.
    if (!status.ok()) RemoveFolder(folder.c_str());
    return status;
  }

  Status StartProcess(Member* member, const std::string& folder, const std::string& file) {
    ProcessSpec process;
    process.name = member->name;
    process.argv = {spec_.binary, member->command, "--config", file};
    process.environment = BaseEnvironment();
    process.environment.insert(process.environment.end(), spec_.environment.begin(),
                               spec_.environment.end());
    process.output_fd = member->log->fd();
    process.folder = folder;
    process.linger = kLinger;
    ASSIGN_OR_RETURN(member->process, ChildProcess::Start(process));
    return OkStatus();
  }

  void Supervise() {
    std::unique_lock lock(mutex_);
    while (!stopping_ && health_.ok()) {
      const MonoTime now = RealClock().Now();
      for (Member& member : members_) Tend(&member, now);
      wake_.wait_for(lock, kTick, [&] { return stopping_; });
    }
  }

  void Tend(Member* member, MonoTime now) {
    if (member->process == nullptr) {
      if (now < member->start_at) return;
      const Status started = StartMember(member);
      if (!started.ok()) Fail(*member, started.message());
      return;
    }
    const std::optional<int> exit = member->process->Poll();
    if (!exit.has_value()) return;
    member->process.reset();
    while (!member->restarts.empty() && member->restarts.front() + kRestartWindow < now) {
      member->restarts.pop_front();
    }
    const auto limit = static_cast<size_t>(spec_.config.cluster.restarts_per_minute);
    if (*exit == kExitUsage) {
      return Fail(*member, fmt::format("ended with exit code {}: it was started wrongly", *exit));
    }
    if (member->restarts.size() >= limit) {
      return Fail(*member, fmt::format("ended with exit code {} after {} restarts in one minute "
                                       "(cluster.restarts_per_minute = {})",
                                       *exit, member->restarts.size(), limit));
    }
    const int doublings = std::min(static_cast<int>(member->restarts.size()), kBackoffDoublings);
    const Nanos backoff = kBackoffFirst * (1 << doublings);
    LOG(kWarning, "{} ended with exit code {}; restart {} in {} ms", member->name, *exit,
        ++member->restarts_total, std::chrono::duration_cast<Millis>(backoff).count());
    member->restarts.push_back(now);
    member->start_at = now + backoff;
  }

  void Fail(const Member& member, const std::string& why) {
    health_ = UnavailableError(fmt::format("{} {}", member.name, why));
    LOG(kError, "{}; the end of its log:", health_.message());
    std::string tail = member.log->Tail(kTailLines);
    for (size_t begin = 0; begin < tail.size();) {
      const size_t end = std::min(tail.find('\n', begin), tail.size());
      LOG(kError, "  | {}", tail.substr(begin, end - begin));
      begin = end + 1;
    }
  }

  void StopAll(const std::string& command, Nanos grace) {
    std::lock_guard lock(mutex_);
    for (Member& member : members_) {
      if (member.command == command && member.process) member.process->RequestStop(grace);
    }
    for (Member& member : members_) {
      if (member.command != command || !member.process) continue;
      member.process->Stop(grace);
      member.process.reset();
    }
  }

  const LocalClusterSpec spec_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Member> members_;
  Status health_;
  bool stopping_ = false;
  std::thread supervisor_;
};

}  // namespace

std::vector<InstanceSpec> TopologyOf(const config::Cluster& cluster) {
  std::vector<InstanceSpec> instances;
  const auto add = [&](const char* role, int64_t count) {
    for (int64_t i = 0; i < count; ++i) instances.push_back({fmt::format("{}-{}", role, i), role});
  };
  add("context", cluster.context);
  add("generation", cluster.generation);
  add("mixed", cluster.mixed);
  return instances;
}

Result<std::unique_ptr<LocalCluster>> LocalCluster::Start(LocalClusterSpec spec) {
  if (spec.config.bus.bootstrap.empty()) {
    return InvalidArgumentError("a local cluster needs bus.bootstrap");
  }
  if (spec.binary.empty()) {
    ASSIGN_OR_RETURN(spec.binary, SelfExecutable());
  }
  auto cluster = std::make_unique<SupervisedCluster>(std::move(spec));
  BATON_RETURN_IF_ERROR(cluster->Launch());
  return std::unique_ptr<LocalCluster>(std::move(cluster));
}

}  // namespace baton::launch
