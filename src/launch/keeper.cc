#include "src/launch/keeper.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "src/base/clock.h"

namespace baton::launch {
namespace {

constexpr int kControlFd = 3;
constexpr int64_t kStuckAfterNs = 10'000'000'000;
constexpr int64_t kKillAgainNs = 10'000'000;  // new children may appear between scan and kill
constexpr int kProcessesMax = 1 << 16;
constexpr int kFolderDepthMax = 32;

struct ProcessEntry {
  pid_t pid;
  pid_t parent;
  bool below;
};
// Touched in the keeper only; untouched pages of .bss cost nothing.
ProcessEntry g_processes[kProcessesMax];

// Safe here: the launcher has used the clock before the fork, and reading it takes no lock.
int64_t NowNs() { return RealClock().Now().ns; }

// Calls visit(name) for each entry of an open folder. Returns false when it cannot be read.
template <typename Visit>
bool ForEachEntry(int fd, Visit visit) {
  alignas(dirent64) char buffer[4096];
  for (;;) {
    const long bytes = syscall(SYS_getdents64, fd, buffer, sizeof(buffer));
    if (bytes < 0) return false;
    if (bytes == 0) return true;
    for (long at = 0; at < bytes;) {
      const auto* entry = reinterpret_cast<const dirent64*>(buffer + at);
      visit(entry->d_name);
      at += entry->d_reclen;
    }
  }
}

// A decimal number; -1 when the text is none.
pid_t ParsePid(const char* text) {
  if (*text < '0' || *text > '9') return -1;
  int64_t value = 0;
  for (; *text >= '0' && *text <= '9'; ++text) value = value * 10 + (*text - '0');
  return *text == '\0' || *text == ' ' ? static_cast<pid_t>(value) : -1;
}

// The parent out of /proc/<pid>/stat: "pid (name) state ppid ...", where name may hold anything.
pid_t ParentOf(int proc_fd, const char* name) {
  char path[32];
  const size_t length = strlen(name);
  if (length + sizeof("/stat") > sizeof(path)) return -1;
  memcpy(path, name, length);
  memcpy(path + length, "/stat", sizeof("/stat"));
  const int fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  char text[512];
  const ssize_t bytes = read(fd, text, sizeof(text) - 1);
  close(fd);
  if (bytes <= 0) return -1;
  text[bytes] = '\0';
  const char* end = strrchr(text, ')');
  return end != nullptr && strlen(end) > 4 ? ParsePid(end + 4) : -1;
}

// Marks every descendant of this process in g_processes and returns the number of entries.
int ScanProcesses() {
  const int proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (proc_fd < 0) return 0;
  int count = 0;
  ForEachEntry(proc_fd, [&](const char* name) {
    const pid_t pid = ParsePid(name);
    if (pid <= 0 || count == kProcessesMax) return;
    const pid_t parent = ParentOf(proc_fd, name);
    if (parent > 0) g_processes[count++] = {pid, parent, false};
  });
  close(proc_fd);
  const pid_t self = getpid();
  for (bool grown = true; grown;) {
    grown = false;
    for (int i = 0; i < count; ++i) {
      ProcessEntry& entry = g_processes[i];
      if (entry.below) continue;
      entry.below = entry.parent == self;
      for (int j = 0; j < count && !entry.below; ++j) {
        entry.below = g_processes[j].below && g_processes[j].pid == entry.parent;
      }
      grown |= entry.below;
    }
  }
  return count;
}

// Signals every descendant but `except`; how many there were.
int SignalBelow(int signal_number, pid_t except) {
  const int count = ScanProcesses();
  int signalled = 0;
  for (int i = 0; i < count; ++i) {
    if (!g_processes[i].below || g_processes[i].pid == except) continue;
    kill(g_processes[i].pid, signal_number);
    ++signalled;
  }
  return signalled;
}

void RemoveBelow(int fd, int depth) {
  if (depth > kFolderDepthMax) return;
  for (bool removed = true; removed;) {
    removed = false;
    lseek(fd, 0, SEEK_SET);
    ForEachEntry(fd, [&](const char* name) {
      if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) return;
      if (unlinkat(fd, name, 0) == 0) {
        removed = true;
        return;
      }
      const int child = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
      if (child < 0) return;
      RemoveBelow(child, depth + 1);
      close(child);
      removed |= unlinkat(fd, name, AT_REMOVEDIR) == 0;
    });
  }
}

void CloseFrom(int first) {
#ifdef SYS_close_range
  if (syscall(SYS_close_range, first, ~0U, 0) == 0) return;
#endif
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const int end = limit.rlim_cur < 65536 ? static_cast<int>(limit.rlim_cur) : 65536;
  for (int fd = first; fd < end; ++fd) close(fd);
}

// stdin empty, stdout and stderr the program's output, 3 the control socket, nothing else: an
// inherited socket or pipe of the launcher must not stay open here.
void ArrangeDescriptors(const KeeperPlan& plan) {
  const int control = fcntl(plan.control_fd, F_DUPFD, 10);
  const int output = fcntl(plan.output_fd, F_DUPFD, 10);
  const int empty = open("/dev/null", O_RDONLY);
  dup2(empty, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  dup2(control, kControlFd);
  CloseFrom(kControlFd + 1);
  fcntl(kControlFd, F_SETFD, FD_CLOEXEC);
}

void Report(KeeperEvent event, int32_t value) {
  const KeeperReport report{event, value};
  send(kControlFd, &report, sizeof(report), MSG_NOSIGNAL);
}

[[noreturn]] void RunProgram(const KeeperPlan& plan, pid_t keeper, int error_fd) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != keeper) _exit(127);  // the keeper died before prctl took effect
  for (int number = 1; number < NSIG; ++number) signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execve(plan.program, plan.argv, plan.environment);
  const int error = errno;
  if (write(error_fd, &error, sizeof(error)) < 0) _exit(126);
  _exit(127);
}

// Forks and executes the program; reports kStarted, or reports kExecFailed and exits.
pid_t StartProgram(const KeeperPlan& plan) {
  int pipe_fds[2];
  int error = 0;
  const pid_t keeper = getpid();
  const pid_t pid = pipe2(pipe_fds, O_CLOEXEC) == 0 ? fork() : -1;
  if (pid == 0) RunProgram(plan, keeper, pipe_fds[1]);
  if (pid < 0) error = errno;
  if (pid > 0) {
    close(pipe_fds[1]);
    // End of file means that exec closed the pipe: it worked.
    if (read(pipe_fds[0], &error, sizeof(error)) != sizeof(error)) error = 0;
    close(pipe_fds[0]);
  }
  if (error != 0) {
    if (pid > 0) waitpid(pid, nullptr, 0);
    if (plan.folder != nullptr) RemoveFolder(plan.folder);
    Report(KeeperEvent::kExecFailed, error);
    _exit(1);
  }
  Report(KeeperEvent::kStarted, pid);
  return pid;
}

// What the keeper knows of its tree. One thread, the keeper's only one.
struct Tree {
  const KeeperPlan& plan;
  pid_t program = 0;
  bool program_alive = true;
  int status = 0;
  bool launcher_alive = true;
  bool stopping = false;
  int64_t kill_at_ns = INT64_MAX;   // the program, once stopping; the rest, once it has ended
  int64_t stuck_at_ns = INT64_MAX;  // counted from the first SIGKILL

  // False when nothing is left to wait for.
  bool Reap() {
    for (;;) {
      int status_now = 0;
      const pid_t pid = waitpid(-1, &status_now, WNOHANG);
      if (pid == 0) return true;
      if (pid < 0) return errno != ECHILD;
      if (pid != program) continue;
      program_alive = false;
      status = status_now;
      // A dead launcher waits for nobody, but keepers below still need to remove their folders.
      kill_at_ns = NowNs() + plan.linger_ns;
    }
  }

  void Stop(int64_t grace_ns) {
    const int64_t kill_at = NowNs() + grace_ns;
    if (!program_alive) return;
    if (kill_at < kill_at_ns) kill_at_ns = kill_at;
    if (stopping) return;
    stopping = true;
    if (grace_ns <= 0) return;
    if (!plan.term_below || SignalBelow(SIGTERM, program) == 0) kill(program, SIGTERM);
  }

  // Sends what is due. The program goes first; the rest of the tree has its linger time.
  void Kill() {
    const int64_t now = NowNs();
    if (now < kill_at_ns) return;
    if (stuck_at_ns == INT64_MAX) stuck_at_ns = now + kStuckAfterNs;
    if (program_alive) {
      kill(program, SIGKILL);
    } else {
      SignalBelow(SIGKILL, 0);
    }
    kill_at_ns = now + kKillAgainNs;
  }

  bool stuck() const { return NowNs() >= stuck_at_ns; }

  int PollTimeoutMs() const {
    if (kill_at_ns == INT64_MAX) return -1;
    const int64_t left = kill_at_ns - NowNs();
    if (left <= 0) return 0;
    return left > 60'000'000'000 ? 60'000 : static_cast<int>(left / 1'000'000) + 1;
  }

  void ReadControl() {
    KeeperOrder order;
    const ssize_t bytes = recv(kControlFd, &order, sizeof(order), MSG_DONTWAIT);
    if (bytes == sizeof(order)) {
      Stop(order.grace_ns);
    } else if (bytes == 0 || (bytes < 0 && errno != EAGAIN && errno != EINTR)) {
      launcher_alive = false;
      Stop(0);
    }
  }
};

// SIGTERM to a keeper means what a stop with the usual grace means.
constexpr int64_t kTermGraceNs = 3'000'000'000;

void Supervise(Tree* tree, int signal_fd) {
  while (tree->Reap()) {
    tree->Kill();
    if (tree->stuck()) return;
    pollfd waits[2] = {{signal_fd, POLLIN, 0}, {tree->launcher_alive ? kControlFd : -1, POLLIN, 0}};
    if (poll(waits, 2, tree->PollTimeoutMs()) < 0) continue;
    if (waits[0].revents != 0) {
      signalfd_siginfo info;
      if (read(signal_fd, &info, sizeof(info)) == sizeof(info) && info.ssi_signo == SIGTERM) {
        tree->Stop(kTermGraceNs);
      }
    }
    if (waits[1].revents != 0) tree->ReadControl();
  }
}

}  // namespace

void RemoveFolder(const char* path) {
  const int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return;
  RemoveBelow(fd, 0);
  close(fd);
  rmdir(path);
}

void RunKeeper(const KeeperPlan& plan) {
  setpgid(0, 0);  // a terminal's Ctrl-C is the launcher's business
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  prctl(PR_SET_NAME, "baton-keeper");
  ArrangeDescriptors(plan);
  sigset_t watched;
  sigemptyset(&watched);
  sigaddset(&watched, SIGCHLD);
  sigaddset(&watched, SIGTERM);
  const int signal_fd = signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
  Tree tree{plan};
  tree.program = StartProgram(plan);
  Supervise(&tree, signal_fd);
  if (plan.folder != nullptr) RemoveFolder(plan.folder);
  Report(tree.stuck() ? KeeperEvent::kStuck : KeeperEvent::kEnded, tree.status);
  _exit(0);
}

}  // namespace baton::launch
