#include "src/launch/process.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string_view>

#include "src/base/log.h"
#include "src/launch/keeper.h"

extern char** environ;

namespace baton::launch {
namespace {

constexpr Nanos kStartTimeout = std::chrono::seconds(10);
constexpr Nanos kStopMargin = std::chrono::seconds(12);  // the keeper gives up after 10

Result<std::string> FindProgram(const std::string& program) {
  if (program.find('/') != std::string::npos) {
    if (access(program.c_str(), X_OK) == 0) return program;
    return NotFoundError(fmt::format("{}: {}", program, strerror(errno)));
  }
  const char* path = getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "/usr/local/bin:/usr/bin:/bin");
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::string candidate = folder + "/" + program;
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return NotFoundError(fmt::format("{} is not installed: no such program in PATH", program));
}

std::vector<char*> Pointers(std::vector<std::string>* texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts->size() + 1);
  for (std::string& text : *texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

int ExitCode(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

int TimeoutMs(MonoTime deadline) {
  const int64_t left = (deadline - RealClock().Now()).count();
  return left <= 0 ? 0 : static_cast<int>(std::min<int64_t>(left / 1'000'000 + 1, 60'000));
}

}  // namespace

Result<std::unique_ptr<ChildProcess>> ChildProcess::Start(const ProcessSpec& spec) {
  if (spec.argv.empty()) return InvalidArgumentError(spec.name + ": no program given");
  RealClock();  // makes it, for the keeper; everything that allocates happens before the fork
  ASSIGN_OR_RETURN(const std::string program, FindProgram(spec.argv[0]));
  std::vector<std::string> arguments = spec.argv;
  std::vector<std::string> variables;
  for (const auto& [key, value] : spec.environment) variables.push_back(key + "=" + value);
  const std::vector<char*> argv = Pointers(&arguments);
  const std::vector<char*> environment = Pointers(&variables);
  const int output_fd = spec.output_fd >= 0 ? spec.output_fd : STDERR_FILENO;
  std::array<int, 2> sockets{};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets.data()) != 0) {
    return UnavailableError(fmt::format("{}: socketpair: {}", spec.name, strerror(errno)));
  }
  const KeeperPlan plan{program.c_str(),     argv.data(),
                        environment.data(),  sockets[1],
                        output_fd,           spec.folder.empty() ? nullptr : spec.folder.c_str(),
                        spec.linger.count(), spec.term_below};
  const pid_t keeper = fork();
  if (keeper == 0) RunKeeper(plan);
  const int fork_error = errno;
  close(sockets[1]);
  if (keeper < 0) {
    close(sockets[0]);
    return UnavailableError(fmt::format("{}: fork: {}", spec.name, strerror(fork_error)));
  }
  std::unique_ptr<ChildProcess> process(new ChildProcess(spec, keeper, sockets[0]));
  BATON_RETURN_IF_ERROR(process->AwaitStart().WithContext(spec.name));
  return process;
}

ChildProcess::ChildProcess(const ProcessSpec& spec, pid_t keeper, int control_fd)
    : name_(spec.name),
      folder_(spec.folder),
      linger_(spec.linger),
      keeper_(keeper),
      control_fd_(control_fd) {}

ChildProcess::~ChildProcess() {
  if (!exit_.has_value()) Stop(std::chrono::seconds(3));
  close(control_fd_);
}

Status ChildProcess::AwaitStart() {
  const MonoTime deadline = RealClock().Now() + kStartTimeout;
  while (pid_ < 0 && !exit_.has_value()) {
    pollfd wait{control_fd_, POLLIN, 0};
    if (poll(&wait, 1, TimeoutMs(deadline)) == 0) {
      return DeadlineExceededError("the program did not start within 10 s");
    }
    ReadReport();
  }
  if (pid_ > 0) return OkStatus();
  return UnavailableError(exec_error_ != 0 ? fmt::format("exec: {}", strerror(exec_error_))
                                           : "the keeper was lost during the start");
}

void ChildProcess::ReadReport() {
  KeeperReport report;
  const ssize_t bytes = recv(control_fd_, &report, sizeof(report), MSG_DONTWAIT);
  if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (bytes != sizeof(report)) return KeeperLost();
  switch (report.event) {
    case KeeperEvent::kStarted:
      pid_ = report.value;
      return;
    case KeeperEvent::kExecFailed:
      exec_error_ = report.value;
      exit_ = 127;
      break;
    case KeeperEvent::kStuck:
      LOG(kError, "{}: something it started did not die of SIGKILL within 10 s", name_);
      [[fallthrough]];
    case KeeperEvent::kEnded:
      exit_ = ExitCode(report.value);
      break;
  }
  waitpid(keeper_, nullptr, 0);  // it exits right after this report
}

// Somebody killed the keeper. The program dies with it (PR_SET_PDEATHSIG); the rest of its process
// group and the folder are ours now.
void ChildProcess::KeeperLost() {
  LOG(kError, "{}: its keeper (pid {}) was killed; ending the process group", name_, keeper_);
  if (pid_ > 0) kill(-pid_, SIGKILL);
  waitpid(keeper_, nullptr, 0);
  if (!folder_.empty()) RemoveFolder(folder_.c_str());
  exit_ = 128 + SIGKILL;
}

std::optional<int> ChildProcess::Poll() {
  if (!exit_.has_value()) ReadReport();
  return exit_;
}

Result<int> ChildProcess::Wait(Nanos timeout) {
  const MonoTime deadline = RealClock().Now() + timeout;
  while (!Poll().has_value()) {
    const int timeout_ms = TimeoutMs(deadline);
    if (timeout_ms == 0) {
      return DeadlineExceededError(
          fmt::format("{} (pid {}) has not ended within {} ms", name_, pid_,
                      std::chrono::duration_cast<Millis>(timeout).count()));
    }
    pollfd wait{control_fd_, POLLIN, 0};
    poll(&wait, 1, timeout_ms);
  }
  return *exit_;
}

void ChildProcess::RequestStop(Nanos grace) {
  if (Poll().has_value()) return;
  const KeeperOrder order{grace.count()};
  // It fails only when the keeper is gone, which the next Poll finds.
  send(control_fd_, &order, sizeof(order), MSG_NOSIGNAL | MSG_DONTWAIT);
}

void ChildProcess::Stop(Nanos grace) {
  RequestStop(grace);
  const Result<int> ended = Wait(grace + linger_ + kStopMargin);
  if (!ended.ok()) LOG(kError, "stopping: {}", ended.status().message());
}

Environment BaseEnvironment() {
  static constexpr std::string_view kExact[] = {
      "PATH",         "HOME",         "USER",          "LANG",          "TZ",
      "TMPDIR",       "ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS",  "LSAN_OPTIONS",
      "RUNFILES_DIR", "TEST_SRCDIR",  "TEST_TMPDIR",   "TEST_WORKSPACE"};
  static constexpr std::string_view kPrefixes[] = {"LC_",   "LD_",   "BATON_",  "BUILD_WORK",
                                                   "CUDA_", "NCCL_", "NVIDIA_", "UCX_"};
  Environment environment;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text(*variable);
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view key = text.substr(0, equals);
    const bool wanted =
        std::find(std::begin(kExact), std::end(kExact), key) != std::end(kExact) ||
        std::any_of(std::begin(kPrefixes), std::end(kPrefixes), [&](std::string_view prefix) {
          return key.substr(0, prefix.size()) == prefix;
        });
    if (wanted) environment.emplace_back(key, text.substr(equals + 1));
  }
  return environment;
}

Result<std::string> SelfExecutable() {
  std::array<char, 4096> path{};
  const ssize_t bytes = readlink("/proc/self/exe", path.data(), path.size());
  if (bytes <= 0) return InternalError(fmt::format("/proc/self/exe: {}", strerror(errno)));
  return std::string(path.data(), static_cast<size_t>(bytes));
}

}  // namespace baton::launch
