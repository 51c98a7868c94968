#include "src/launch/log_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace baton::launch {
namespace {
constexpr off_t kTailBytes = 16 << 10;
}  // namespace

Result<LogFile> LogFile::Open(const std::string& path) {
  constexpr int kFlags = O_RDWR | O_APPEND | O_CLOEXEC;
  if (!path.empty()) {
    const int fd = open(path.c_str(), kFlags | O_CREAT, 0644);
    if (fd >= 0) return LogFile(fd);
    return UnavailableError(fmt::format("cannot write the log {}: {}", path, strerror(errno)));
  }
  int fd = open("/tmp", kFlags | O_TMPFILE, 0600);
  if (fd < 0) {  // a file system without unnamed files
    fd = memfd_create("baton-log", MFD_CLOEXEC);
    if (fd >= 0) fcntl(fd, F_SETFL, O_APPEND);
  }
  if (fd >= 0) return LogFile(fd);
  return UnavailableError(fmt::format("cannot make a log file in /tmp: {}", strerror(errno)));
}

LogFile::~LogFile() {
  if (fd_ >= 0) close(fd_);
}

LogFile::LogFile(LogFile&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }

std::string LogFile::Tail(size_t lines) const {
  struct stat info {};
  if (fstat(fd_, &info) != 0) return "";
  const off_t from = std::max<off_t>(0, info.st_size - kTailBytes);
  std::string text(static_cast<size_t>(info.st_size - from), '\0');
  const ssize_t bytes = pread(fd_, text.data(), text.size(), from);
  text.resize(bytes > 0 ? static_cast<size_t>(bytes) : 0);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  size_t begin = text.size();
  for (size_t i = 0; i < lines && begin != 0; ++i) {
    const size_t newline = text.rfind('\n', begin - 1);
    begin = newline == std::string::npos ? 0 : newline;
  }
  return text.substr(begin != 0 ? begin + 1 : 0);
}

}  // namespace baton::launch
