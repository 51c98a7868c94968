// A small real cluster for tests: a broker (embedded in the test process, or a real Kafka), a
// controller and instances as child processes, one MPI job per instance, and a client. Everything
// ends with the test. One thread.
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "src/base/clock.h"
#include "src/base/result.h"
#include "src/bus/bus.h"
#include "src/bus/kafka/embedded.h"
#include "src/bus/testing/real_broker.h"
#include "src/client/client.h"
#include "src/config/config.h"
#include "src/launch/local_cluster.h"
#include "src/wire/messages.h"
#include "src/wire/topics.h"

namespace baton::cluster {

enum class Broker { kEmbedded, kReal };

struct Options {
  Broker broker = Broker::kEmbedded;
  std::vector<launch::InstanceSpec> instances;
  // Starting point; bus and model path are filled in.
  config::Config config;
  launch::Environment environment;
};

// What came back for one request.
struct Answer {
  wire::ResultRecord record;
  int terminals = 0;  // terminal records seen; must be 1
};
using Answers = std::map<std::string, Answer>;  // by request id

class TestCluster {
 public:
  // Returns once every instance has sent a heartbeat.
  static Result<std::unique_ptr<TestCluster>> Start(const Options& options);
  ~TestCluster();

  // Submits all and waits for a terminal record of each; kDeadlineExceeded names those that lack
  // one. Reads on for a moment afterwards, so that a second terminal record would be seen.
  Result<Answers> Run(const std::vector<wire::Request>& requests, Nanos timeout);
  Status Submit(const std::vector<wire::Request>& requests);
  Result<Answers> Await(const std::vector<wire::Request>& requests, Nanos timeout);

  // Latest heartbeat of an instance, waiting until `enough` says so.
  Result<wire::Heartbeat> AwaitHeartbeat(const std::string& instance,
                                         const std::function<bool(const wire::Heartbeat&)>& enough,
                                         Nanos timeout);
  // The rank processes of an instance: what `kill` is for.
  Result<std::vector<pid_t>> RankPids(const std::string& instance) const;

  bus::Bus* bus() { return bus_.get(); }
  bus::RealBroker* real_broker() { return real_.get(); }
  launch::LocalCluster* processes() { return processes_.get(); }
  const config::Config& config() const { return config_; }

 private:
  TestCluster() = default;
  Status StartBroker(Broker broker);
  Status PollHeartbeats(Nanos timeout);

  config::Config config_;
  std::unique_ptr<bus::RealBroker> real_;
  std::unique_ptr<bus::EmbeddedCluster> embedded_;
  std::unique_ptr<bus::Bus> bus_;
  std::unique_ptr<bus::Consumer> heartbeats_;
  std::map<std::string, wire::Heartbeat> latest_;
  std::unique_ptr<client::Client> client_;
  std::unique_ptr<launch::LocalCluster> processes_;
};

// A file from the runfiles of this test: "examples/prompts.jsonl", "src/cmd/baton".
std::string Runfile(const std::string& path);
// The model that the test has as data.
std::string ModelFile();

// n chat requests with ids r0, r1, ...: half of them share a long first part, so that prefix caches
// matter. Greedy.
std::vector<wire::Request> Prompts(int n, uint32_t max_tokens);

}  // namespace baton::cluster
