#include "src/launch/testing/probe.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "src/base/check.h"

namespace baton::launch::testing {

bool Alive(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  if (!std::getline(file, text)) return false;
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos || name_end + 2 >= text.size()) return false;
  const char state = text[name_end + 2];
  return state != 'Z' && state != 'X' && state != 'x';
}

std::vector<pid_t> Descendants(pid_t pid) {
  std::multimap<pid_t, pid_t> children;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream file(entry.path() / "stat");
    std::string text;
    if (!std::getline(file, text)) continue;  // it has just ended
    std::istringstream rest(text.substr(text.rfind(')') + 2));
    char state = 0;
    pid_t parent = 0;
    if (rest >> state >> parent) children.emplace(parent, std::stoi(name));
  }
  std::vector<pid_t> found = {pid};
  for (size_t i = 0; i < found.size(); ++i) {
    const auto [begin, end] = children.equal_range(found[i]);
    for (auto it = begin; it != end; ++it) found.push_back(it->second);
  }
  found.erase(found.begin());
  return found;
}

bool Eventually(Nanos timeout, const std::function<bool()>& condition) {
  const MonoTime deadline = RealClock().Now() + timeout;
  while (!condition()) {
    if (RealClock().Now() > deadline) return condition();
    poll(nullptr, 0, 5);  // there is nothing to wait on: the processes are not our children
  }
  return true;
}

std::vector<std::string> FilesBelow(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (auto it = std::filesystem::recursive_directory_iterator(folder, error);
       !error && it != std::filesystem::recursive_directory_iterator(); it.increment(error)) {
    files.push_back(it->path().string());
  }
  return files;
}

std::string Runfile(const std::string& path) {
  const char* root = getenv("TEST_SRCDIR");
  const char* workspace = getenv("TEST_WORKSPACE");
  CHECK(root != nullptr && workspace != nullptr, "run it with bazel test");
  return fmt::format("{}/{}/{}", root, workspace, path);
}

ShortTmpdir::ShortTmpdir() : path_("/tmp/bt-XXXXXX") {
  CHECK(mkdtemp(path_.data()) != nullptr);
  CHECK(setenv("TMPDIR", path_.c_str(), 1) == 0);
}

ShortTmpdir::~ShortTmpdir() {
  unsetenv("TMPDIR");
  std::error_code error;
  std::filesystem::remove_all(path_, error);
}

}  // namespace baton::launch::testing
