// baton instance: stands outside the MPI job, starts it and watches it.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "src/base/log.h"
#include "src/cmd/broker.h"
#include "src/cmd/commands.h"
#include "src/cmd/model_file.h"
#include "src/cmd/signals.h"
#include "src/launch/exit_codes.h"
#include "src/launch/mpi_job.h"
#include "src/launch/process.h"

namespace baton::cmd {
namespace {

constexpr const char* kPurpose = "Serve one copy of the model on a Kafka broker's cluster.";
constexpr const char* kMore =
    "Joins the cluster at --bootstrap and serves until it is stopped; SIGTERM and Ctrl-C drain. A\n"
    "second process with the same --name replaces the first. Compute runs in an MPI job below "
    "this\n"
    "process.\n\n"
    "Examples:\n"
    "  baton instance --bootstrap 127.0.0.1:9092 --name ctx-0 --role context\n"
    "  baton instance --bootstrap 127.0.0.1:9092 --name gen-0 --role generation --threads 2\n";

constexpr Nanos kWatch = std::chrono::milliseconds(100);
constexpr Nanos kRanksTimeout = std::chrono::seconds(60);
// Beyond the drain: the last events are delivered, MPI ends.
constexpr Nanos kEndMargin = std::chrono::seconds(3);

// Names each rank that is gone while the job still runs: mpirun ends the job a second later and
// does not say which rank it was.
class RankWatch {
 public:
  explicit RankWatch(std::vector<pid_t> pids) : pids_(std::move(pids)) {}
  void Look() {
    for (size_t rank = 0; rank < pids_.size(); ++rank) {
      if (pids_[rank] <= 0 || kill(pids_[rank], 0) == 0) continue;
      LOG(kWarning, "rank {} (pid {}) has ended", rank, pids_[rank]);
      pids_[rank] = -1;
    }
  }

 private:
  std::vector<pid_t> pids_;
};

int Watch(launch::MpiJob* job, Nanos stop_grace) {
  Result<std::vector<pid_t>> pids = job->RankPids(kRanksTimeout);
  if (!pids.ok() && !job->Poll().has_value()) return Fail("baton instance", pids.status());
  RankWatch ranks(pids.ok() ? std::move(pids).value() : std::vector<pid_t>());
  while (!StopRequested()) {
    const Result<int> ended = job->Wait(kWatch);
    if (ended.ok()) {
      if (*ended > 128) {
        return Fail("baton instance",
                    UnavailableError(fmt::format("a rank was killed by signal {}; the job is over",
                                                 *ended - 128)));
      }
      return *ended;  // the rank has said why
    }
    ranks.Look();
  }
  job->Stop(stop_grace);
  return job->Poll().value_or(launch::kExitInternal) == 0 ? launch::kExitOk
                                                          : launch::kExitInterrupted;
}

int RunInstance(const ConfigFlags& flags) {
  Result<config::Config> config = flags.Load();
  if (!config.ok()) return Fail("baton instance", config.status());
  if (config->instance.name.empty()) {
    config->instance.name = fmt::format("{}-{}", config->instance.role, getpid());
  }
  const Status model = FindModel(&config->model);
  if (!model.ok()) return Fail("baton instance", model);
  // A broker that is away is said here, in one line, and not by every rank.
  const Status reached = StartLogAndReachBroker(*config, config->instance.name);
  if (!reached.ok()) return Fail("baton instance", reached);
  const Result<std::string> self = launch::SelfExecutable();
  if (!self.ok()) return Fail("baton instance", self.status());

  launch::MpiJobSpec spec;
  spec.name = config->instance.name;
  spec.ranks = static_cast<uint32_t>(config->instance.tp * config->instance.pp);
  spec.argv = {*self, "rank"};
  spec.files = {{"config.toml", config::ToToml(*config, /*redact=*/false)}};
  auto job = launch::MpiJob::Start(spec);
  if (!job.ok()) return Fail("baton instance", job.status());
  return Watch(job->get(), Millis(config->cluster.drain_timeout_ms) + kEndMargin);
}

}  // namespace

void AddInstance(CLI::App* app, Commands* commands) {
  CLI::App* command = app->add_subcommand("instance", kPurpose);
  command->footer(kMore);
  auto flags = std::make_shared<ConfigFlags>();
  flags->Add(command, {"bus", "model", "instance", "engine", "log"});
  commands->all.emplace_back(command, [flags] { return RunInstance(*flags); });
}

}  // namespace baton::cmd
