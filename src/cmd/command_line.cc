#include "src/cmd/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "src/config/options.h"
#include "src/launch/exit_codes.h"

namespace baton::cmd {

void ConfigFlags::Add(CLI::App* app, const std::vector<std::string_view>& groups) {
  app->add_option("--config", config_path_, "TOML file; flags win over it")
      ->type_name("FILE")
      ->group("configuration");
  for (const config::Option& option : config::AllOptions()) {
    if (std::find(groups.begin(), groups.end(), option.group()) == groups.end()) continue;
    const std::string flag(option.flag);
    const std::string key(option.key);
    const std::string preset = option.Default();
    // Ranges and errors are the table's: CLI11 passes the text on.
    app->add_option_function<std::string>(
           flag,
           [this, key, flag](const std::string& value) {
             given_.push_back({key, value, flag});
           },
           fmt::format("{} ({}{})", option.help, option.Range(),
                       preset.empty() ? "" : "; default " + preset))
        ->type_name("")
        ->group(std::string(option.group()));
  }
  if (std::find(groups.begin(), groups.end(), "bus") != groups.end()) {
    app->add_option("--kafka", kafka_,
                    "key=value: any librdkafka setting, verbatim (TLS, SASL); may be repeated")
        ->type_name("")
        ->group("bus");
  }
}

Result<config::Config> ConfigFlags::Load() const {
  config::Config config;
  if (!config_path_.empty()) {
    BATON_RETURN_IF_ERROR(config::ApplyFile(ResolvePath(config_path_), &config));
  }
  for (const Given& given : given_) {
    BATON_RETURN_IF_ERROR(config::SetOption(given.key, given.value, given.flag, &config));
  }
  for (const std::string& setting : kafka_) {
    const size_t equals = setting.find('=');
    if (equals == 0 || equals == std::string::npos) {
      // The value may be a secret, so the text is not repeated.
      return InvalidArgumentError("--kafka takes key=value, as in --kafka security.protocol=SSL");
    }
    config.bus.kafka[setting.substr(0, equals)] = setting.substr(equals + 1);
  }
  config.model.path = ResolvePath(config.model.path);
  config.cluster.log_folder = ResolvePath(config.cluster.log_folder);
  BATON_RETURN_IF_ERROR(config::Validate(config));
  return config;
}

std::string ResolvePath(const std::string& path) {
  if (path.empty() || path.front() == '/') return path;
  const char* user = std::getenv("BUILD_WORKING_DIRECTORY");
  std::error_code error;
  const std::filesystem::path folder =
      user != nullptr ? std::filesystem::path(user) : std::filesystem::current_path(error);
  return (folder / path).lexically_normal().string();
}

int Fail(std::string_view command, const Status& status) {
  std::fprintf(stderr, "%s: %s\n", std::string(command).c_str(), status.message().c_str());
  return launch::ExitCodeOf(status);
}

std::string_view NearestFlag(std::string_view flag) {
  const auto& options = config::AllOptions();
  return std::min_element(options.begin(), options.end(),
                          [&](const config::Option& a, const config::Option& b) {
                            return config::EditDistance(a.flag, flag) <
                                   config::EditDistance(b.flag, flag);
                          })
      ->flag;
}

}  // namespace baton::cmd
