#include "src/bus/testing/real_broker.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <thread>

#include "src/base/log.h"
#include "src/base/rng.h"

namespace baton::bus {
namespace {

namespace fs = std::filesystem;

constexpr int kStartTries = 5;
constexpr Nanos kStartTimeout = std::chrono::seconds(90);
constexpr Nanos kEndTimeout = std::chrono::seconds(10);
constexpr Nanos kLook = std::chrono::milliseconds(20);
constexpr char kClusterId[] = "QmF0b25UZXN0Q2x1c3RlcQ";  // 16 bytes in base64url

bool CanBind(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const int one = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool bound =
      bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 && listen(fd, 1) == 0;
  close(fd);
  return bound;
}

// Below the range from which Linux takes ports of outgoing connections (32768 on), so that none of
// those can sit on the port while the broker restarts.
int PickPort(Rng& rng) {
  for (;;) {
    const int port = 15'000 + static_cast<int>(rng.Below(17'000));
    if (CanBind(port)) return port;
  }
}

// Runfiles of a test, or of `bazel run`.
std::string FindJars() {
  std::vector<std::string> places;
  if (const char* runfiles = getenv("TEST_SRCDIR")) {
    places.push_back(std::string(runfiles) + "/kafka_broker/jars");
  }
  places.push_back("../kafka_broker/jars");
  places.push_back("external/kafka_broker/jars");
  for (const std::string& place : places) {
    std::error_code ignored;
    if (fs::is_directory(place, ignored)) return fs::absolute(place).string();
  }
  return "";
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

Result<std::unique_ptr<RealBroker>> RealBroker::Start(const RealBrokerOptions& options) {
  std::unique_ptr<RealBroker> broker(new RealBroker(options));
  BATON_RETURN_IF_ERROR(broker->Prepare());
  Rng rng(RandomSeed());
  for (int attempt = 1;; ++attempt) {
    broker->port_ = PickPort(rng);
    broker->controller_port_ = PickPort(rng);
    BATON_RETURN_IF_ERROR(broker->Format());
    const Status started = broker->Launch();
    if (started.ok()) return broker;
    // Somebody took a port between our look and the broker's.
    if (!broker->LogHas("Address already in use") || attempt == kStartTries) return started;
    broker->End(false);
    std::error_code ignored;
    fs::rename(broker->log_path_, broker->log_path_ + fmt::format(".{}", attempt), ignored);
  }
}

RealBroker::~RealBroker() {
  End(true);
  std::error_code ignored;
  fs::remove_all(folder_ + "/data", ignored);
}

Status RealBroker::Prepare() {
  const std::string jars = FindJars();
  if (jars.empty()) {
    return FailedPreconditionError("the jars of @kafka_broker are not among the runfiles");
  }
  classpath_ = jars + "/*";
  const char* test_folder = getenv("TEST_TMPDIR");
  folder_ = std::string(test_folder == nullptr ? "/tmp" : test_folder) + "/kafka.XXXXXX";
  if (mkdtemp(folder_.data()) == nullptr) {
    return FailedPreconditionError("cannot make the folder " + folder_);
  }
  // Bazel keeps what lies there, passed or failed.
  const char* outputs = getenv("TEST_UNDECLARED_OUTPUTS_DIR");
  log_path_ = outputs == nullptr ? folder_ + "/broker.log"
                                 : fmt::format("{}/broker-{}.log", outputs,
                                               fs::path(folder_).extension().string().substr(1));
  return OkStatus();
}

Status RealBroker::WriteConfig() const {
  std::ofstream log(folder_ + "/log4j2.properties");
  log << "appender.out.type = Console\nappender.out.name = out\n"
         "appender.out.layout.type = PatternLayout\n"
         "appender.out.layout.pattern = %d{ISO8601} %p %c{1}: %m%n\n"
         "rootLogger.level = INFO\nrootLogger.appenderRef.out.ref = out\n";
  std::ofstream config(folder_ + "/server.properties");
  const int advertised = options_.advertised_port == 0 ? port_ : options_.advertised_port;
  config << fmt::format(
      "process.roles=broker,controller\nnode.id=1\n"
      "controller.quorum.voters=1@127.0.0.1:{1}\n"
      "listeners=PLAINTEXT://127.0.0.1:{0},CONTROLLER://127.0.0.1:{1}\n"
      "advertised.listeners=PLAINTEXT://127.0.0.1:{2}\n"
      "controller.listener.names=CONTROLLER\ninter.broker.listener.name=PLAINTEXT\n"
      "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT\n"
      "log.dirs={3}/data\n",
      port_, controller_port_, advertised, folder_);
  config << "auto.create.topics.enable=false\nnum.partitions=1\ndefault.replication.factor=1\n"
            "offsets.topic.num.partitions=1\noffsets.topic.replication.factor=1\n"
            "transaction.state.log.num.partitions=1\ntransaction.state.log.replication.factor=1\n"
            "transaction.state.log.min.isr=1\ngroup.initial.rebalance.delay.ms=0\n"
            "group.min.session.timeout.ms=1000\nnum.network.threads=2\nnum.io.threads=2\n"
            "log.cleaner.backoff.ms=1000\nlog.cleaner.dedupe.buffer.size=16777216\n";
  for (const auto& [key, value] : options_.config) config << key << "=" << value << "\n";
  config.close();
  log.close();
  if (config.fail() || log.fail()) return UnavailableError("cannot write into " + folder_);
  return OkStatus();
}

std::vector<std::string> RealBroker::Java(const std::string& main_class) const {
  std::vector<std::string> arguments = {
      "java",
      "-Xms128m",
      fmt::format("-Xmx{}m", options_.heap_mb),
      "-XX:+UseSerialGC",
      "-XX:ActiveProcessorCount=2",
      "-Djava.net.preferIPv4Stack=true",
      fmt::format("-Dlog4j2.configurationFile={}/log4j2.properties", folder_)};
  if (options_.quick_start) arguments.push_back("-XX:TieredStopAtLevel=1");
  arguments.insert(arguments.end(), {"-cp", classpath_, main_class});
  return arguments;
}

Result<pid_t> RealBroker::Spawn(const std::vector<std::string>& arguments) const {
  const int log = open(log_path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (log < 0 || null < 0) return UnavailableError("cannot open " + log_path_);
  std::vector<char*> raw;
  for (const std::string& argument : arguments) raw.push_back(const_cast<char*>(argument.c_str()));
  raw.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) {
    // Other threads of the parent may hold locks: system calls only.
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(126);
    dup2(null, STDIN_FILENO);
    dup2(log, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    execvp(raw[0], raw.data());
    _exit(127);
  }
  close(log);
  close(null);
  if (pid < 0) return UnavailableError("cannot fork");
  return pid;
}

Status RealBroker::Format() {
  std::error_code ignored;
  fs::remove_all(folder_ + "/data", ignored);
  BATON_RETURN_IF_ERROR(WriteConfig());
  std::vector<std::string> arguments = Java("kafka.tools.StorageTool");
  arguments.insert(arguments.end(),
                   {"format", "--cluster-id", kClusterId, "-c", folder_ + "/server.properties"});
  ASSIGN_OR_RETURN(pid_, Spawn(arguments));
  const MonoTime until = RealClock().Now() + kStartTimeout;
  int state = 0;
  while (waitpid(pid_, &state, WNOHANG) == 0) {
    if (RealClock().Now() > until) {
      End(false);
      return DeadlineExceededError("the broker's folder was not formatted in time\n" + LogTail());
    }
    std::this_thread::sleep_for(kLook);
  }
  pid_ = -1;
  if (WIFEXITED(state) && WEXITSTATUS(state) == 0) return OkStatus();
  if (WIFEXITED(state) && WEXITSTATUS(state) == 127) {
    return FailedPreconditionError("java is not on PATH (Debian: openjdk-17-jre-headless)");
  }
  return FailedPreconditionError("the broker's folder cannot be formatted:\n" + LogTail());
}

Status RealBroker::Launch() {
  std::vector<std::string> arguments = Java("kafka.Kafka");
  arguments.push_back(folder_ + "/server.properties");
  ASSIGN_OR_RETURN(pid_, Spawn(arguments));
  return WaitReady();
}

// A listening port is not enough: a record has to go in and come out.
Status RealBroker::WaitReady() {
  KafkaOptions options;
  options.bootstrap = bootstrap();
  options.client_name = "readiness";
  ASSIGN_OR_RETURN(const std::unique_ptr<KafkaBus> bus, MakeKafkaBus(options));
  const MonoTime until = RealClock().Now() + kStartTimeout;
  Status status;
  do {
    if (Reap()) return UnavailableError("the broker ended at once:\n" + LogTail());
    if (RealClock().Now() > until) {
      return DeadlineExceededError(
          fmt::format("the broker is not ready: {}\n{}", status.ToString(), LogTail()));
    }
    status = bus->Ping(std::chrono::milliseconds(250));
  } while (!status.ok());
  // With an advertised proxy records cannot pass before the proxy runs; its owner waits for them.
  if (options_.advertised_port != 0) return OkStatus();
  const std::string topic = "baton.readiness";
  BATON_RETURN_IF_ERROR(bus->Provision({{.name = topic}}, until - RealClock().Now()));
  ASSIGN_OR_RETURN(const std::unique_ptr<Consumer> consumer, bus->NewConsumer("consumer"));
  ASSIGN_OR_RETURN(const std::unique_ptr<Producer> producer, bus->NewProducer("producer"));
  BATON_RETURN_IF_ERROR(consumer->Assign({{topic, 0, kOffsetEnd}}));
  BATON_RETURN_IF_ERROR(producer->Produce({.topic = topic, .partition = 0, .value = "x"}, {}));
  BATON_RETURN_IF_ERROR(producer->Flush(until - RealClock().Now()));
  ASSIGN_OR_RETURN(const std::optional<Record> record, consumer->Poll(until - RealClock().Now()));
  return record ? OkStatus() : DeadlineExceededError("no record came out of the broker");
}

std::string RealBroker::bootstrap() const { return fmt::format("127.0.0.1:{}", port_); }

KafkaOptions RealBroker::Options() const {
  KafkaOptions options;
  options.bootstrap = options_.advertised_port == 0
                          ? bootstrap()
                          : fmt::format("127.0.0.1:{}", options_.advertised_port);
  options.replication_factor = 1;
  return options;
}

Status RealBroker::Restart(bool graceful) {
  End(graceful);
  for (int attempt = 1;; ++attempt) {
    const Status started = Launch();
    if (started.ok() || attempt == kStartTries) return started;
    if (!LogHas("Address already in use")) return started;
    End(false);
  }
}

void RealBroker::Kill() { End(false); }

void RealBroker::Stop() {
  if (pid_ > 0) kill(pid_, SIGSTOP);
}

void RealBroker::Continue() {
  if (pid_ > 0) kill(pid_, SIGCONT);
}

bool RealBroker::Reap() {
  if (pid_ > 0 && waitpid(pid_, nullptr, WNOHANG) != 0) pid_ = -1;
  return pid_ < 0;
}

void RealBroker::End(bool graceful) {
  if (pid_ < 0) return;
  Continue();
  kill(pid_, graceful ? SIGTERM : SIGKILL);
  const MonoTime until = RealClock().Now() + kEndTimeout;
  while (!Reap()) {
    // A killed process is gone once the kernel let go of its memory; there is nothing else to do.
    if (graceful && RealClock().Now() > until) {
      LOG(kWarning, "the broker did not end within {} s and is killed",
          kEndTimeout / std::chrono::seconds(1));
      graceful = false;
      kill(pid_, SIGKILL);
    }
    std::this_thread::sleep_for(kLook);
  }
}

bool RealBroker::LogHas(const std::string& text) const {
  return ReadFile(log_path_).find(text) != std::string::npos;
}

std::string RealBroker::LogTail() const {
  constexpr size_t kTail = 6000;
  const std::string text = ReadFile(log_path_);
  return text.size() <= kTail ? text : text.substr(text.size() - kTail);
}

const char* RealBroker::Version() {
  static const std::string version = [] {
    const std::string prefix = "kafka_2.13-";
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(FindJars(), ignored)) {
      const std::string name = entry.path().stem().string();
      if (name.starts_with(prefix)) return name.substr(prefix.size());
    }
    return std::string("unknown");
  }();
  return version.c_str();
}

}  // namespace baton::bus
