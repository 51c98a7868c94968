// baton controller
#include "src/controller/controller.h"

#include <poll.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <memory>

#include "src/base/log.h"
#include "src/cmd/broker.h"
#include "src/cmd/commands.h"
#include "src/cmd/signals.h"
#include "src/launch/exit_codes.h"
#include "src/transfer/transfer.h"

namespace baton::cmd {
namespace {

constexpr const char* kPurpose = "Run the one process that routes requests to instances.";
constexpr const char* kMore =
    "Makes the topics it needs, takes requests from the broker at --bootstrap, and keeps their "
    "state\n"
    "in the ledger topic: one that is killed is replaced by starting it again. Run one a "
    "prefix.\n\n"
    "Examples:\n"
    "  baton controller --bootstrap 127.0.0.1:9092\n"
    "  baton controller --bootstrap broker:9093 --kafka security.protocol=SSL --prefix team-a\n";

constexpr Nanos kProvisionTimeout = std::chrono::seconds(30);
constexpr int kPauseMs = 1000;  // before another life after the broker was away

controller::Options OptionsOf(const config::Config& config) {
  controller::Options options;
  options.topics = wire::Topics(config.bus.prefix);
  options.ledger.in_flight_max = static_cast<size_t>(config.controller.in_flight_max);
  options.ledger.failures_max = static_cast<uint32_t>(config.controller.attempts_max);
  options.liveness.suspect = Millis(config.controller.suspect_ms);
  options.liveness.dead = Millis(config.controller.dead_ms);
  options.route.policy = config.controller.routing == "round-robin"
                             ? controller::Policy::kRoundRobin
                             : controller::Policy::kLeastLoaded;
  options.route.short_prompt_tokens = static_cast<uint32_t>(config.controller.short_prompt_tokens);
  options.check_pairing = transfer::CheckPairing;
  options.slot_bytes_max = static_cast<uint64_t>(config.instance.credit_bytes);
  options.drain_timeout = Millis(config.cluster.drain_timeout_ms);
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) == 0) options.host = host.data();
  return options;
}

// A controller that lost the broker starts another life: all it knows is in the ledger.
bool MayLiveAgain(const Status& status) {
  return status.code() == StatusCode::kUnavailable ||
         status.code() == StatusCode::kDeadlineExceeded;
}

Status RunLives(const config::Config& config, bus::Bus* bus) {
  const controller::Options options = OptionsOf(config);
  for (;;) {
    auto controller = controller::Controller::Create(options, bus, &RealClock());
    const Status status =
        controller.ok() ? (*controller)->Run(StopRequested()) : controller.status();
    if (status.ok() || StopRequested() || !MayLiveAgain(status)) return status;
    LOG(kWarning, "starting again: {}", status.message());
    poll(nullptr, 0, kPauseMs);  // a signal ends it early
  }
}

int RunController(const ConfigFlags& flags) {
  const Result<config::Config> config = flags.Load();
  if (!config.ok()) return Fail("baton controller", config.status());
  const std::string& name = config->controller.name;
  Status status = StartLogAndReachBroker(*config, name);
  if (!status.ok()) return Fail("baton controller", status);
  const auto bus = ConnectBus(*config, name);
  if (!bus.ok()) return Fail("baton controller", bus.status());
  status = (*bus)->Provision(TopicsOf(*config), kProvisionTimeout);
  if (status.ok()) status = RunLives(*config, bus->get());
  return status.ok() ? launch::kExitOk : Fail("baton controller", status);
}

}  // namespace

void AddController(CLI::App* app, Commands* commands) {
  CLI::App* command = app->add_subcommand("controller", kPurpose);
  command->footer(kMore);
  auto flags = std::make_shared<ConfigFlags>();
  flags->Add(command, {"bus", "controller", "log"});
  commands->all.emplace_back(command, [flags] { return RunController(*flags); });
}

}  // namespace baton::cmd
