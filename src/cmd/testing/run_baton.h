// Runs the program as a user does, stdout and stderr apart. Test code only; one thread.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "src/base/clock.h"

namespace baton::cmd::testing {

struct Ran {
  int code = -1;  // exit code, 128 + signal, or -1 when it did not end in time and was killed
  std::string out;
  std::string err;
};

// A running program. Killed on destruction.
class Running {
 public:
  // Inherits this process's environment, with `environment` on top.
  Running(const std::string& program, const std::vector<std::string>& arguments,
          const std::vector<std::pair<std::string, std::string>>& environment = {});
  ~Running();
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  pid_t pid() const { return pid_; }
  Ran Wait(Nanos timeout);

 private:
  std::string ReadBack(int fd) const;
  pid_t pid_ = -1;
  int out_ = -1;
  int err_ = -1;
};

}  // namespace baton::cmd::testing
