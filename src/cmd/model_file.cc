#include "src/cmd/model_file.h"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "src/launch/process.h"

namespace baton::cmd {
namespace {

constexpr std::string_view kDefaultModel = "smollm2/model.gguf";  // @smollm2//:model.gguf

// Bazel lays out data dependencies in a folder that tests get by name and other programs find
// beside their own file.
std::string DefaultModel() {
  std::error_code error;
  for (const char* variable : {"RUNFILES_DIR", "TEST_SRCDIR"}) {
    const char* folder = std::getenv(variable);
    if (folder == nullptr) continue;
    const std::string path = fmt::format("{}/{}", folder, kDefaultModel);
    if (std::filesystem::exists(path, error)) return path;
  }
  const Result<std::string> self = launch::SelfExecutable();
  if (!self.ok()) return "";
  const std::string path = fmt::format("{}.runfiles/{}", *self, kDefaultModel);
  return std::filesystem::exists(path, error) ? path : "";
}

}  // namespace

Status FindModel(config::Model* model) {
  // The file calls itself by its training run.
  if (model->path.empty() && model->name.empty()) model->name = "SmolLM2-135M-Instruct";
  ASSIGN_OR_RETURN(model->path, FindModelFile(model->path));
  return OkStatus();
}

Result<std::string> FindModelFile(const std::string& wanted) {
  const std::string path = wanted.empty() ? DefaultModel() : wanted;
  if (path.empty()) {
    return NotFoundError("no model is built in; name one with --model FILE (GGUF)");
  }
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    return NotFoundError(fmt::format("there is no model file {}; see --model", path));
  }
  if (std::filesystem::is_directory(path, error)) {
    return InvalidArgumentError(
        fmt::format("{} is a folder; --model takes the GGUF file inside", path));
  }
  std::ifstream file(path, std::ios::binary);
  std::array<char, 4> magic{};
  if (!file) {
    return UnavailableError(fmt::format("cannot read the model {}: {}", path, strerror(errno)));
  }
  file.read(magic.data(), magic.size());
  if (file.gcount() != 4 || std::string_view(magic.data(), 4) != "GGUF") {
    return InvalidArgumentError(
        fmt::format("{} is not a model: it does not start with \"GGUF\"; see --model", path));
  }
  return path;
}

}  // namespace baton::cmd
