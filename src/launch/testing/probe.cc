#include "src/launch/testing/probe.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

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

bool Eventually(Nanos timeout, const std::function<bool()>& condition) {
  const MonoTime deadline = RealClock().Now() + timeout;
  while (!condition()) {
    if (RealClock().Now() > deadline) return condition();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
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
