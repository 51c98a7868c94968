// baton version, baton config
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "src/cmd/commands.h"
#include "src/cmd/version.h"
#include "src/config/options.h"
#include "src/launch/exit_codes.h"

namespace baton::cmd {

void AddInfo(CLI::App* app, Commands* commands) {
  CLI::App* version = app->add_subcommand("version", "Print versions of baton and its libraries.");
  version->footer("Version, commit, librdkafka, MPI and compiler, one a line.\n");
  commands->all.emplace_back(version, [] {
    std::fputs(VersionText().c_str(), stdout);
    return launch::kExitOk;
  });

  CLI::App* config =
      app->add_subcommand("config", "Explain every option; with --config FILE, check that file.");
  config->footer(
      "With --config, prints what the file changes, secrets hidden, and exits with 2 when it is "
      "wrong.\n");
  auto flags = std::make_shared<ConfigFlags>();
  flags->Add(config, {});
  commands->all.emplace_back(config, [flags, config] {
    if (config->count("--config") == 0) {
      std::fputs(config::DescribeOptions().c_str(), stdout);
      return launch::kExitOk;
    }
    const auto loaded = flags->Load();
    if (!loaded.ok()) return Fail("baton config", loaded.status());
    std::fputs(config::ToToml(*loaded, /*redact=*/true).c_str(), stdout);
    return launch::kExitOk;
  });
}

}  // namespace baton::cmd
