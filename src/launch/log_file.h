// Where a supervised process writes: a named file, or an unnamed one that vanishes with its last
// user, whatever kills whom. One owner thread.
#pragma once

#include <cstddef>
#include <string>

#include "src/base/result.h"

namespace baton::launch {

class LogFile {
 public:
  // Empty path: unnamed, in /tmp. Appends to a file that exists.
  static Result<LogFile> Open(const std::string& path);
  ~LogFile();
  LogFile(LogFile&& other) noexcept;
  LogFile& operator=(LogFile&&) = delete;

  int fd() const { return fd_; }
  // The last lines, of at most 16 KiB.
  std::string Tail(size_t lines) const;

 private:
  explicit LogFile(int fd) : fd_(fd) {}
  int fd_;
};

}  // namespace baton::launch
