// baton batch
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

#include "src/base/log.h"
#include "src/batch/job.h"
#include "src/bus/kafka/embedded.h"
#include "src/client/client.h"
#include "src/cmd/broker.h"
#include "src/cmd/commands.h"
#include "src/cmd/model_file.h"
#include "src/cmd/signals.h"
#include "src/launch/exit_codes.h"
#include "src/launch/local_cluster.h"

namespace baton::cmd {
namespace {

constexpr const char* kPurpose =
    "Run a file of requests (OpenAI batch JSONL) and write the answers.";
constexpr const char* kMore =
    "Without --bootstrap it brings its own cluster: an embedded broker, a controller, one context\n"
    "and one generation instance, all gone at the end. With --bootstrap the file goes through the\n"
    "cluster there. A wrong line costs one row in the error file, never the job. Run the same\n"
    "command again to resume; finished rows are kept. Ctrl-C drains, a second one stops.\n\n"
    "Examples:\n"
    "  baton batch --input prompts.jsonl --output results.jsonl\n"
    "  baton batch --input prompts.jsonl --output results.jsonl --mixed-instances 1 \\\n"
    "      --context-instances 0 --generation-instances 0\n"
    "  baton batch --bootstrap 127.0.0.1:9092 --input prompts.jsonl --output results.jsonl\n";

struct BatchFlags {
  ConfigFlags config;
  batch::JobOptions job;
  int64_t deadline_s = 0;
};

// Shows progress, and ends the job when the cluster below it has failed.
class WatchedProgress : public batch::ProgressSink {
 public:
  explicit WatchedProgress(const launch::LocalCluster* cluster)
      : text_([](const std::string& text) { std::fputs(text.c_str(), stderr); },
              isatty(STDERR_FILENO) == 1, &RealClock()),
        cluster_(cluster) {}
  void Update(const batch::Progress& progress) override {
    if (cluster_ != nullptr && Interrupts() < 2 && !cluster_->health().ok()) Interrupts() = 2;
    text_.Update(progress);
  }
  void Note(const std::string& text) override { text_.Note(text); }

 private:
  batch::TextProgress text_;
  const launch::LocalCluster* const cluster_;
};

// Where the job runs: somebody's broker, or a cluster of its own. Members end in reverse order.
struct Place {
  std::unique_ptr<bus::EmbeddedCluster> broker;
  std::unique_ptr<bus::KafkaBus> bus;
  std::unique_ptr<launch::LocalCluster> cluster;
};

Result<Place> OwnCluster(config::Config* config) {
  BATON_RETURN_IF_ERROR(FindModel(&config->model));
  LogLevel level = LogLevel::kInfo;
  ParseLogLevel(config->log.level, &level);
  InitLog("batch", level);
  Place place;
  ASSIGN_OR_RETURN(place.broker, bus::EmbeddedCluster::Start(TopicsOf(*config)));
  ASSIGN_OR_RETURN(place.bus, bus::MakeKafkaBus(place.broker->Options()));
  config->bus.bootstrap = place.broker->bootstrap();
  config->bus.embedded = true;
  config->bus.kafka.clear();  // of a real broker; the embedded one knows no TLS
  launch::LocalClusterSpec spec;
  spec.config = *config;
  spec.instances = launch::TopologyOf(config->cluster);
  ASSIGN_OR_RETURN(place.cluster, launch::LocalCluster::Start(std::move(spec)));
  return place;
}

Result<Place> Somebodys(const config::Config& config) {
  BATON_RETURN_IF_ERROR(StartLogAndReachBroker(config, "batch"));
  Place place;
  ASSIGN_OR_RETURN(place.bus, ConnectBus(config, "batch"));
  return place;
}

Status CheckInput(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    return NotFoundError(fmt::format("there is no input file {}; see --input", path));
  }
  if (access(path.c_str(), R_OK) != 0) {
    return UnavailableError(fmt::format("cannot read {}: {}", path, strerror(errno)));
  }
  return OkStatus();
}

Result<batch::Summary> RunIn(const Place& place, const config::Config& config,
                             const batch::JobOptions& job) {
  client::Options options;
  options.topics = wire::Topics(config.bus.prefix);
  ASSIGN_OR_RETURN(const auto client, client::Client::Create(place.bus.get(), options));
  WatchedProgress progress(place.cluster.get());
  return batch::RunBatch(job, *client, RealClock(), progress);
}

int RunBatchCommand(const BatchFlags& flags) {
  Result<config::Config> config = flags.config.Load();
  if (!config.ok()) return Fail("baton batch", config.status());
  batch::JobOptions job = flags.job;
  for (std::string* path : {&job.input, &job.results, &job.errors}) *path = ResolvePath(*path);
  if (const Status input = CheckInput(job.input); !input.ok()) return Fail("baton batch", input);
  job.tenant = config->batch.tenant;
  job.window_requests = static_cast<size_t>(config->batch.window);
  job.stall_timeout = Millis(config->batch.stall_timeout_ms);
  job.deadline = Millis(flags.deadline_s * 1000);
  job.interrupts = &Interrupts();
  HandleSignals(2);

  Result<Place> place = config->bus.bootstrap.empty() ? OwnCluster(&*config) : Somebodys(*config);
  if (!place.ok()) return Fail("baton batch", place.status());
  const Result<batch::Summary> summary = RunIn(*place, *config, job);
  const Status health = place->cluster ? place->cluster->health() : OkStatus();
  // Nothing runs any more unless the job was cut short; then the answers have no reader.
  if (place->cluster) place->cluster->Stop(std::chrono::seconds(2));
  if (!health.ok()) return Fail("baton batch", health);
  if (!summary.ok()) return Fail("baton batch", summary.status());
  std::printf("%s\n", batch::SummaryText(*summary).c_str());
  return batch::ExitStatus(*summary);
}

}  // namespace

void AddBatch(CLI::App* app, Commands* commands) {
  CLI::App* command = app->add_subcommand("batch", kPurpose);
  command->footer(kMore);
  auto flags = std::make_shared<BatchFlags>();
  const auto path = [&](const char* flag, std::string* value, const char* help) {
    return command->add_option(flag, *value, help)->type_name("FILE")->group("job");
  };
  path("--input", &flags->job.input, "requests, one JSON object a line")->required();
  path("--output", &flags->job.results, "answers, one line for each that was answered")->required();
  path("--errors", &flags->job.errors, "rows of what failed (default <output>.errors.jsonl)");
  command->add_flag("--strict", flags->job.strict, "refuse the whole file when any line is wrong")
      ->group("job");
  command->add_flag("--overwrite", flags->job.overwrite, "start anew over earlier output")
      ->group("job");
  command
      ->add_option("--deadline-s", flags->deadline_s,
                   "for the whole job, from its first start (0 to 31536000 s; default 0: none)")
      ->check(CLI::Range(0, 31'536'000))
      ->type_name("")
      ->group("job");
  flags->config.Add(command, {"bus", "model", "engine", "controller", "batch", "cluster", "log"});
  commands->all.emplace_back(command, [flags] { return RunBatchCommand(*flags); });
}

}  // namespace baton::cmd
