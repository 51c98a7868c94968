// What every command shares: options from the table in src/config, errors as one line, paths as the
// user meant them. One thread, before others start.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/result.h"
#include "src/config/config.h"

namespace CLI {
class App;
}

namespace baton::cmd {

// Options of the groups named ("bus", "model", ...), plus --config and, with the bus, --kafka.
// Must outlive the parse.
class ConfigFlags {
 public:
  void Add(CLI::App* app, const std::vector<std::string_view>& groups);
  // Defaults, then the file, then the flags; paths made absolute; validated.
  Result<config::Config> Load() const;

 private:
  struct Given {
    std::string key;
    std::string value;
    std::string flag;
  };
  std::string config_path_;
  std::vector<std::string> kafka_;
  std::vector<Given> given_;
};

// A command sets this up when it is added to the app; main calls the one that was chosen.
struct Commands {
  std::vector<std::pair<CLI::App*, std::function<int()>>> all;
};

// Relative paths are meant from where the user stands: `bazel run` changes the working folder and
// leaves the user's in BUILD_WORKING_DIRECTORY.
std::string ResolvePath(const std::string& path);

// "baton batch: <message>" on stderr; the exit code for it.
int Fail(std::string_view command, const Status& status);

// The flag of any option that is spelled most like this one.
std::string_view NearestFlag(std::string_view flag);

}  // namespace baton::cmd
