// One librdkafka client with its configuration and its log. Thread-safe as librdkafka is; the
// owner outlives every call.
#pragma once

#include <librdkafka/rdkafka.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "src/base/clock.h"
#include "src/base/result.h"
#include "src/bus/kafka/kafka_bus.h"

namespace baton::bus::kafka {

// Takes librdkafka's log lines from its threads: at most one a second for each kind goes on to
// ours, with the number left out. Remembers the last failure for error messages. Thread-safe.
class HandleLog {
 public:
  explicit HandleLog(std::string name) : name_(std::move(name)) {}
  void Line(int syslog_level, const char* kind, const char* text);
  // "" when nothing failed yet.
  std::string last_failure() const;
  const std::string& name() const { return name_; }

 private:
  struct Kind {
    MonoTime last;
    int left_out = 0;
  };
  const std::string name_;
  mutable std::mutex mutex_;
  std::map<std::string, Kind> kinds_;
  std::string last_failure_;
};

struct MetadataDeleter {
  void operator()(const rd_kafka_metadata_t* metadata) const {
    rd_kafka_metadata_destroy(metadata);
  }
};
using MetadataPtr = std::unique_ptr<const rd_kafka_metadata_t, MetadataDeleter>;

class Handle {
 public:
  // `name` becomes part of client.id. `delivered` is the producer's delivery callback or null;
  // `owner` reaches it as opaque.
  using DeliveredFn = void (*)(rd_kafka_t*, const rd_kafka_message_t*, void*);
  static Result<std::unique_ptr<Handle>> Make(const KafkaOptions& options, rd_kafka_type_t type,
                                              const std::string& name, DeliveredFn delivered);
  ~Handle();
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  rd_kafka_t* get() const { return rk_; }
  // The topic's object, made on first use and kept. Making it asks the broker for the topic at
  // once; librdkafka would otherwise find a new topic with its next scan, up to a second later.
  // Owner thread only.
  rd_kafka_topic_t* Topic(const std::string& name);
  const std::string& name() const { return log_.name(); }
  // What the broker knows: all topics, or `topic`, or without either only the brokers.
  // kUnavailable when it is away.
  Result<MetadataPtr> Metadata(bool all_topics, rd_kafka_topic_t* topic, Nanos timeout);
  // kUnavailable "broker <bootstrap> is away: <last failure, or else the error's text>".
  Status Away(rd_kafka_resp_err_t error) const;
  void set_owner(void* owner) { owner_ = owner; }
  void* owner() const { return owner_; }

 private:
  static void OnLog(const rd_kafka_t* rk, int level, const char* kind, const char* text);
  Handle(std::string name, std::string bootstrap)
      : log_(std::move(name)), bootstrap_(std::move(bootstrap)) {}

  HandleLog log_;
  const std::string bootstrap_;
  rd_kafka_t* rk_ = nullptr;
  std::map<std::string, rd_kafka_topic_t*> topics_;
  void* owner_ = nullptr;
};

// Milliseconds for librdkafka, rounded up so that a short wait does not become a spin.
int TimeoutMs(Nanos timeout);

}  // namespace baton::bus::kafka
