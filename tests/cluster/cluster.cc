#include "tests/cluster/cluster.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <utility>

#include "src/wire/codec.h"

namespace baton::cluster {
namespace {

constexpr Nanos kReadyTimeout = std::chrono::seconds(120);
constexpr Nanos kSecondLook = std::chrono::milliseconds(300);

std::vector<bus::TopicSettings> Topics(const std::string& prefix) {
  std::vector<bus::TopicSettings> settings;
  for (const wire::TopicSpec& spec : wire::Topics(prefix).All()) {
    settings.push_back({spec.name, spec.partitions, spec.config});
  }
  return settings;
}

// Parent of a process by /proc/<pid>/stat: the second number after the name's closing bracket.
pid_t ParentOf(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const size_t bracket = text.rfind(')');
  if (bracket == std::string::npos || bracket + 4 >= text.size()) return -1;
  return static_cast<pid_t>(std::strtol(text.c_str() + bracket + 4, nullptr, 10));
}

bool IsRank(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/cmdline", pid));
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const size_t end = text.find('\0');
  return end != std::string::npos && text.compare(end + 1, 5, std::string("rank\0", 5)) == 0;
}

bool Descends(pid_t pid, pid_t ancestor) {
  for (int depth = 0; pid > 1 && depth < 16; ++depth, pid = ParentOf(pid)) {
    if (pid == ancestor) return true;
  }
  return false;
}

}  // namespace

std::string Runfile(const std::string& path) {
  const char* root = std::getenv("TEST_SRCDIR");
  const char* workspace = std::getenv("TEST_WORKSPACE");
  if (root == nullptr || workspace == nullptr) return path;
  return path.starts_with("../") ? fmt::format("{}/{}", root, path.substr(3))
                                 : fmt::format("{}/{}/{}", root, workspace, path);
}

std::string ModelFile() { return Runfile("../smollm2/model.gguf"); }

Result<std::unique_ptr<TestCluster>> TestCluster::Start(const Options& options) {
  std::unique_ptr<TestCluster> made(new TestCluster());
  made->config_ = options.config;
  made->config_.model.path = ModelFile();
  BATON_RETURN_IF_ERROR(made->StartBroker(options.broker));

  const wire::Topics topics(made->config_.bus.prefix);
  BATON_RETURN_IF_ERROR(made->bus_->Provision(Topics(topics.prefix()), kReadyTimeout));
  ASSIGN_OR_RETURN(made->heartbeats_, made->bus_->NewConsumer("test-heartbeats"));
  BATON_RETURN_IF_ERROR(made->heartbeats_->Assign({{topics.Instances(), 0, bus::kOffsetEnd}}));
  client::Options client_options;
  client_options.topics = topics;
  ASSIGN_OR_RETURN(made->client_, client::Client::Create(made->bus_.get(), client_options));

  launch::LocalClusterSpec spec;
  spec.binary = Runfile("src/cmd/baton_unstamped");
  spec.config = made->config_;
  spec.instances = options.instances;
  spec.environment = options.environment;
  ASSIGN_OR_RETURN(made->processes_, launch::LocalCluster::Start(std::move(spec)));
  for (const launch::ProcessInfo& process : made->processes_->Processes()) {
    if (process.name == made->config_.controller.name) continue;
    Result<wire::Heartbeat> beat = made->AwaitHeartbeat(
        process.name, [](const wire::Heartbeat&) { return true; }, kReadyTimeout);
    if (!beat.ok()) return beat.status();
  }
  return made;
}

TestCluster::~TestCluster() {
  if (processes_ != nullptr) processes_->Stop(std::chrono::seconds(3));
}

Status TestCluster::StartBroker(Broker broker) {
  bus::KafkaOptions options;
  if (broker == Broker::kReal) {
    ASSIGN_OR_RETURN(real_, bus::RealBroker::Start({}));
    options = real_->Options();
  } else {
    ASSIGN_OR_RETURN(embedded_, bus::EmbeddedCluster::Start(Topics(config_.bus.prefix)));
    options = embedded_->Options();
    config_.bus.embedded = true;
  }
  config_.bus.bootstrap = options.bootstrap;
  ASSIGN_OR_RETURN(bus_, bus::MakeKafkaBus(options));
  return OkStatus();
}

Status TestCluster::PollHeartbeats(Nanos timeout) {
  ASSIGN_OR_RETURN(std::optional<bus::Record> record, heartbeats_->Poll(timeout));
  if (!record.has_value() || !record->value.has_value() || !record->key.starts_with("hb/")) {
    return OkStatus();
  }
  ASSIGN_OR_RETURN(wire::Heartbeat beat, wire::DecodeHeartbeat(*record->value));
  latest_[beat.instance] = std::move(beat);
  return OkStatus();
}

Result<wire::Heartbeat> TestCluster::AwaitHeartbeat(
    const std::string& instance, const std::function<bool(const wire::Heartbeat&)>& enough,
    Nanos timeout) {
  const MonoTime until = RealClock().Now() + timeout;
  while (RealClock().Now() < until) {
    const auto found = latest_.find(instance);
    if (found != latest_.end() && enough(found->second)) return found->second;
    BATON_RETURN_IF_ERROR(processes_->health());
    BATON_RETURN_IF_ERROR(PollHeartbeats(std::chrono::milliseconds(50)));
  }
  return DeadlineExceededError("no such heartbeat of instance '" + instance + "'");
}

Result<std::vector<pid_t>> TestCluster::RankPids(const std::string& instance) const {
  pid_t launcher = -1;
  for (const launch::ProcessInfo& process : processes_->Processes()) {
    if (process.name == instance) launcher = process.pid;
  }
  std::vector<pid_t> pids;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const pid_t pid = static_cast<pid_t>(std::strtol(entry.path().filename().c_str(), nullptr, 10));
    if (pid > 1 && IsRank(pid) && Descends(pid, launcher)) pids.push_back(pid);
  }
  if (launcher <= 0 || pids.empty()) return NotFoundError("no rank of '" + instance + "' runs");
  return pids;
}

Status TestCluster::Submit(const std::vector<wire::Request>& requests) {
  for (const wire::Request& request : requests) {
    BATON_RETURN_IF_ERROR(client_->Submit(request));
  }
  return client_->Flush(std::chrono::seconds(30));
}

Result<Answers> TestCluster::Await(const std::vector<wire::Request>& requests, Nanos timeout) {
  std::set<std::string> waiting;
  for (const wire::Request& request : requests) waiting.insert(request.id.request_id);
  Answers answers;
  MonoTime until = RealClock().Now() + timeout;
  while (RealClock().Now() < until) {
    BATON_RETURN_IF_ERROR(processes_->health());
    ASSIGN_OR_RETURN(std::optional<client::Received> received,
                     client_->Poll(std::chrono::milliseconds(50)));
    if (!received.has_value()) continue;
    auto* result = std::get_if<wire::ResultRecord>(&*received);
    if (result == nullptr || result->kind != wire::ResultKind::kTerminal) continue;
    Answer& answer = answers[result->id.request_id];
    ++answer.terminals;
    const bool was_waiting = waiting.erase(result->id.request_id) > 0;
    if (was_waiting) answer.record = std::move(*result);
    if (was_waiting && waiting.empty()) until = RealClock().Now() + kSecondLook;
  }
  if (waiting.empty()) return answers;
  std::string names;
  for (const std::string& id : waiting) names += " " + id;
  return DeadlineExceededError(fmt::format("{} of {} requests have no terminal record:{}",
                                           waiting.size(), requests.size(), names));
}

Result<Answers> TestCluster::Run(const std::vector<wire::Request>& requests, Nanos timeout) {
  BATON_RETURN_IF_ERROR(Submit(requests));
  return Await(requests, timeout);
}

std::vector<wire::Request> Prompts(int n, uint32_t max_tokens) {
  static constexpr const char* kSubjects[] = {"a relay race", "the moon", "old clocks", "bread",
                                              "a lighthouse", "chess",    "rivers",     "bees"};
  const std::string shared =
      "You are a careful assistant. Answer in plain words, in one or two sentences, without lists, "
      "and do not repeat the question. If you are not sure, say so and explain briefly why.";
  std::vector<wire::Request> requests;
  for (int i = 0; i < n; ++i) {
    wire::Request request;
    request.id = {"test", fmt::format("r{}", i)};
    const std::string question = fmt::format("Tell me fact {} about {}.", i, kSubjects[i % 8]);
    request.chat_messages_json =
        i % 2 == 0 ? fmt::format(
                         R"([{{"role":"system","content":"{}"}},{{"role":"user","content":"{}"}}])",
                         shared, question)
                   : fmt::format(R"([{{"role":"user","content":"{}"}}])", question);
    request.max_tokens = max_tokens;
    requests.push_back(std::move(request));
  }
  return requests;
}

}  // namespace baton::cluster
