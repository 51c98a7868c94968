// baton: every process of the project is this program with another command.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>

#include "src/base/fault.h"
#include "src/cmd/commands.h"
#include "src/cmd/signals.h"
#include "src/launch/exit_codes.h"

namespace baton::cmd {
namespace {

constexpr const char* kAbout =
    "Baton runs large-language-model inference for requests that arrive on Kafka.\n\n"
    "Results go to files or stdout, logs to stderr. `baton COMMAND --help` explains a command.";

constexpr const char* kFooter =
    "Exit codes:\n"
    "  0  done\n"
    "  1  done, but some rows or requests failed\n"
    "  2  wrong option, configuration or input\n"
    "  3  something needed is not there: broker, model, peer; or it was lost\n"
    "  4  replaced by another process with the same name\n"
    " 70  a bug in baton\n"
    "130  stopped by a signal before the end\n";

// "--rolle" -> " (did you mean --role?)"
std::string Hint(const std::string& message) {
  const size_t at = message.find("--");
  if (message.find("not expected") == std::string::npos || at == std::string::npos) return "";
  const std::string flag = message.substr(at, message.find_first_of(" =", at) - at);
  return fmt::format(" (did you mean {}?)", NearestFlag(flag));
}

// Help goes to stdout with 0; anything else is one line on stderr.
int ParseFailed(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) return app.exit(error);
  std::string command = "baton";
  for (const CLI::App* chosen : app.get_subcommands()) command += " " + chosen->get_name();
  const std::string message = error.what();
  std::fprintf(stderr, "%s: %s%s; see %s --help\n", command.c_str(), message.c_str(),
               Hint(message).c_str(), command.c_str());
  return launch::kExitUsage;
}

// CLI11 would only say that a subcommand is required.
std::string UnknownCommand(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return "";
  std::string known;
  for (const CLI::App* command : app.get_subcommands({})) {
    if (command->get_name() == argv[1]) return "";
    if (!command->get_group().empty()) known += (known.empty() ? "" : ", ") + command->get_name();
  }
  return fmt::format("baton: there is no command \"{}\"; there are {}", argv[1], known);
}

int Main(int argc, char** argv) {
  CLI::App app(kAbout, "baton");
  app.footer(kFooter);
  app.require_subcommand(1);
  Commands commands;
  AddBatch(&app, &commands);
  AddController(&app, &commands);
  AddInstance(&app, &commands);
  AddSubmit(&app, &commands);
  AddRank(&app, &commands);
  AddInfo(&app, &commands);
  if (const std::string unknown = UnknownCommand(app, argc, argv); !unknown.empty()) {
    std::fprintf(stderr, "%s\n", unknown.c_str());
    return launch::kExitUsage;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return ParseFailed(app, error);
  }
  InstallStopSignals();
  if (const Status faults = SetFaultPlanFromEnvironment(); !faults.ok()) {
    return Fail("baton", faults.WithContext("BATON_FAULTS"));
  }
  for (const auto& [command, run] : commands.all) {
    if (command->parsed()) return run();
  }
  return launch::kExitUsage;
}

}  // namespace
}  // namespace baton::cmd

int main(int argc, char** argv) { return baton::cmd::Main(argc, argv); }
