// baton rank: one MPI rank of an instance. Hidden: `baton instance` starts it below mpirun, with
// its settings in the job's private folder.
#include <CLI/CLI.hpp>
#include <cstdlib>
#include <memory>

#include "src/base/log.h"
#include "src/cmd/broker.h"
#include "src/cmd/commands.h"
#include "src/cmd/signals.h"
#include "src/instance/instance.h"
#include "src/launch/exit_codes.h"
#include "src/ranks/mpi_session.h"

namespace baton::cmd {
namespace {

wire::Role RoleOf(const std::string& name) {
  if (name == "context") return wire::Role::kContext;
  return name == "generation" ? wire::Role::kGeneration : wire::Role::kMixed;
}

// The config is valid: every integer fits.
instance::InstanceOptions OptionsOf(const config::Config& config, const std::string& folder) {
  instance::InstanceOptions options;
  options.name = config.instance.name;
  options.role = RoleOf(config.instance.role);
  options.topics = wire::Topics(config.bus.prefix);
  options.model_path = config.model.path;
  options.model_name = config.model.name;
  options.backend = config.model.backend;
  options.backend_options.dtype =
      config.model.dtype == "f32" ? backend::DType::kF32 : backend::DType::kBf16;
  options.backend_options.kv_blocks = static_cast<uint32_t>(config.model.kv_blocks);
  options.backend_options.threads = static_cast<uint32_t>(config.model.threads);
  options.backend_options.limits = {static_cast<uint32_t>(config.engine.running_max),
                                    static_cast<uint32_t>(config.engine.step_tokens_max)};
  options.transport = config.instance.transport;
  options.folder = folder;
  options.engine.queue_max = static_cast<uint32_t>(config.engine.queue_max);
  options.engine.running_max = static_cast<uint32_t>(config.engine.running_max);
  options.engine.step_tokens_max = static_cast<uint32_t>(config.engine.step_tokens_max);
  options.engine.steps_ahead = static_cast<uint32_t>(config.engine.steps_ahead);
  options.engine.prefix_cache = config.engine.prefix_cache;
  options.engine.offer_timeout = Millis(config.engine.offer_timeout_ms);
  options.engine.transfer_timeout = Millis(config.engine.transfer_timeout_ms);
  options.engine.vote_deadline = Millis(config.engine.vote_deadline_ms);
  options.max_running = static_cast<uint32_t>(config.instance.credits);
  options.max_bytes = static_cast<uint64_t>(config.instance.credit_bytes);
  options.heartbeat_interval = Millis(config.instance.heartbeat_ms);
  options.drain_timeout = Millis(config.cluster.drain_timeout_ms);
  return options;
}

int RunRank() {
  auto session = ranks::MpiSession::Create();
  if (!session.ok()) return Fail("baton rank", session.status());
  const char* folder = std::getenv("BATON_JOB_FOLDER");
  config::Config config;
  Status status = folder != nullptr
                      ? config::ApplyFile(std::string(folder) + "/config.toml", &config)
                      : FailedPreconditionError("BATON_JOB_FOLDER is not set");
  if (status.ok()) status = config::Validate(config);
  if (status.ok()) {
    LogLevel level = LogLevel::kInfo;
    ParseLogLevel(config.log.level, &level);
    InitLog(config.instance.name, level);
    const auto bus = ConnectBus(config, config.instance.name);
    status = bus.ok() ? instance::RunInstanceRank(OptionsOf(config, folder), bus->get(),
                                                  &RealClock(), StopRequested())
                      : bus.status();
  }
  if (status.ok()) return launch::kExitOk;
  (*session)->Abandon();
  return Fail("baton instance " + config.instance.name, status);
}

}  // namespace

void AddRank(CLI::App* app, Commands* commands) {
  CLI::App* command = app->add_subcommand("rank", "One MPI rank; started by `baton instance`.");
  command->group("");  // hidden
  commands->all.emplace_back(command, RunRank);
}

}  // namespace baton::cmd
