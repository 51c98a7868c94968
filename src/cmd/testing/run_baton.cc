#include "src/cmd/testing/run_baton.h"

#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "src/base/check.h"

namespace baton::cmd::testing {

Running::Running(const std::string& program, const std::vector<std::string>& arguments,
                 const std::vector<std::pair<std::string, std::string>>& environment) {
  out_ = memfd_create("out", MFD_CLOEXEC);
  err_ = memfd_create("err", MFD_CLOEXEC);
  CHECK(out_ >= 0 && err_ >= 0);
  std::vector<std::string> texts = {program};
  texts.insert(texts.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& text : texts) argv.push_back(text.data());
  argv.push_back(nullptr);
  pid_ = fork();
  CHECK(pid_ >= 0);
  if (pid_ != 0) return;
  dup2(out_, STDOUT_FILENO);
  dup2(err_, STDERR_FILENO);
  for (const auto& [key, value] : environment) setenv(key.c_str(), value.c_str(), 1);
  execv(program.c_str(), argv.data());
  _exit(126);
}

Running::~Running() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  close(out_);
  close(err_);
}

std::string Running::ReadBack(int fd) const {
  struct stat info {};
  CHECK(fstat(fd, &info) == 0);
  std::string text(static_cast<size_t>(info.st_size), '\0');
  CHECK(pread(fd, text.data(), text.size(), 0) == info.st_size);
  return text;
}

Ran Running::Wait(Nanos timeout) {
  const MonoTime deadline = RealClock().Now() + timeout;
  Ran ran;
  int status = 0;
  while (waitpid(pid_, &status, WNOHANG) == 0) {
    if (RealClock().Now() > deadline) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
      status = -1;
      break;
    }
    poll(nullptr, 0, 5);
  }
  pid_ = -1;
  if (status != -1) ran.code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  ran.out = ReadBack(out_);
  ran.err = ReadBack(err_);
  return ran;
}

}  // namespace baton::cmd::testing
