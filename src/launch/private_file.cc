#include "src/launch/private_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace baton::launch {

Result<std::string> MakePrivateFolder(const std::string& base) {
  std::string path = base + "/baton-XXXXXX";
  if (mkdtemp(path.data()) == nullptr) {
    return UnavailableError(fmt::format("cannot create {}: {}", path, strerror(errno)));
  }
  return path;
}

Status WritePrivateFile(const std::string& path, std::string_view text) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  const bool written =
      fd >= 0 && write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const int error = errno;
  if (fd >= 0) close(fd);
  if (written) return OkStatus();
  return UnavailableError(fmt::format("cannot write {}: {}", path, strerror(error)));
}

}  // namespace baton::launch
