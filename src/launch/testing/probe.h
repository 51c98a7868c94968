// What launch tests ask of the system: is it alive, is it gone. Test code only; one thread.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "src/base/clock.h"

namespace baton::launch::testing {

// Running, sleeping or stopped. A zombie is not alive, whatever kill(pid, 0) says.
bool Alive(pid_t pid);
// Every process below `pid`, children of children included.
std::vector<pid_t> Descendants(pid_t pid);
// Until `condition` holds or the time is up; the condition's last value.
bool Eventually(Nanos timeout, const std::function<bool()>& condition);
// Paths of everything below a folder.
std::vector<std::string> FilesBelow(const std::string& folder);
// Path of a data dependency, given from the workspace root.
std::string Runfile(const std::string& path);
// A new empty folder with a short name (Open MPI puts sockets below it), removed at the end, that
// TMPDIR points to meanwhile.
class ShortTmpdir {
 public:
  ShortTmpdir();
  ~ShortTmpdir();
  ShortTmpdir(const ShortTmpdir&) = delete;
  ShortTmpdir& operator=(const ShortTmpdir&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace baton::launch::testing
