// A real Apache Kafka broker (KRaft, one node) for tests and benchmarks: its own folder, free
// ports, ready when a record went through it. The class is used from one thread, the main one: the
// broker is killed by the kernel when the thread that started it ends, so that no test leaves it.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/base/result.h"
#include "src/bus/kafka/kafka_bus.h"

namespace baton::bus {

struct RealBrokerOptions {
  // The port that clients are told to use, when something stands between (a proxy); 0: its own.
  int advertised_port = 0;
  int heap_mb = 512;
  // Fast start and little memory for tests; false leaves the JVM its optimising compiler.
  bool quick_start = true;
  std::vector<std::pair<std::string, std::string>> config;  // further server.properties
};

class RealBroker {
 public:
  // Needs java on PATH and the jars of @kafka_broker as data. Takes 4-8 s on two cores; what went
  // wrong is in the message with the end of the broker's log.
  static Result<std::unique_ptr<RealBroker>> Start(const RealBrokerOptions& options);
  // TERM, after 10 s KILL; removes its data, keeps its log.
  ~RealBroker();
  RealBroker(const RealBroker&) = delete;
  RealBroker& operator=(const RealBroker&) = delete;

  // Of the broker itself, past any proxy.
  std::string bootstrap() const;
  int port() const { return port_; }
  pid_t pid() const { return pid_; }
  // For buses on this broker (through the advertised port).
  KafkaOptions Options() const;

  // Ends it (`graceful`: TERM; otherwise KILL) and starts it on the same ports and data; returns
  // when it is ready again.
  Status Restart(bool graceful);
  // KILL; it stays down until Restart().
  void Kill();
  // A broker that hangs: connections stay open and nothing is answered.
  void Stop();
  void Continue();

  const std::string& log_path() const { return log_path_; }
  // The last lines, for messages of failed tests.
  std::string LogTail() const;
  static const char* Version();  // of the jars, "4.1.1"

 private:
  explicit RealBroker(RealBrokerOptions options) : options_(std::move(options)) {}
  Status Prepare();
  Status WriteConfig() const;
  Status Format();
  Status Launch();
  Status WaitReady();
  Result<pid_t> Spawn(const std::vector<std::string>& arguments) const;
  std::vector<std::string> Java(const std::string& main_class) const;
  bool LogHas(const std::string& text) const;
  // True when it is gone.
  bool Reap();
  void End(bool graceful);

  const RealBrokerOptions options_;
  std::string folder_;
  std::string log_path_;
  std::string classpath_;
  int port_ = 0;
  int controller_port_ = 0;
  pid_t pid_ = -1;
};

}  // namespace baton::bus
