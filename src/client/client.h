// A Kafka client of the cluster: submit requests, read results. One owner thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "src/base/clock.h"
#include "src/base/result.h"
#include "src/bus/bus.h"
#include "src/wire/messages.h"
#include "src/wire/topics.h"

namespace baton::client {

struct Options {
  wire::Topics topics;
  bool read_tokens = false;  // also read baton.tokens
  // Where to read results from: false: what is published from now on (every partition's end is
  // resolved before Create returns, so an early answer is not missed); true: from the oldest
  // record, to find answers of an earlier life of this job.
  bool from_beginning = false;
  // Waits for the topics to exist until then.
  Nanos startup_timeout = std::chrono::seconds(30);
};

// A record that is none of ours (other identity, other job) is passed on too: the caller filters.
using Received = std::variant<wire::ResultRecord, wire::TokenRecord>;

class Client {
 public:
  static Result<std::unique_ptr<Client>> Create(bus::Bus* bus, const Options& options);
  virtual ~Client() = default;
  // Queues the request; kResourceExhausted means Poll and try again. A failed delivery comes out of
  // Poll as an error ResultRecord with kind kTerminal, outcome kError and controller epoch 0.
  virtual Status Submit(const wire::Request& request) = 0;
  virtual Status Cancel(const Identity& id) = 0;
  virtual Status CancelJob(const std::string& tenant, const std::string& job) = 0;
  virtual Result<std::optional<Received>> Poll(Nanos timeout) = 0;
  // Waits until every submitted request is acknowledged by the broker.
  virtual Status Flush(Nanos timeout) = 0;
};

}  // namespace baton::client
