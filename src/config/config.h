// Everything that can be set, as one typed struct. Values come, in this order, from the defaults
// below, a TOML file, and the command line; options.h describes each of them once, for the file,
// the command line and the help. Validate() runs once, before anything starts: what it lets pass
// never has to be checked again.
//
// Plain values; thread-safe as such. Integers are int64_t in the unit that the name ends with;
// options.cc holds the ranges.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "src/base/result.h"
#include "src/base/status.h"

namespace baton::config {

struct Bus {
  std::string bootstrap;  // empty: none; `baton batch` then starts an embedded broker
  std::string prefix = "baton";
  bool embedded = false;  // the broker at `bootstrap` is the embedded one of another process
  std::map<std::string, std::string> kafka;  // verbatim to librdkafka
};

struct Model {
  std::string path;
  std::string name;  // that requests use; empty: the file's own
  std::string backend = "cpu";
  std::string dtype = "bf16";
  int64_t threads = 1;
  int64_t kv_blocks = 1024;
};

struct Instance {
  std::string name;
  std::string role = "mixed";
  std::string transport = "mapped";
  int64_t tp = 1;
  int64_t pp = 1;
  int64_t credits = 64;
  int64_t credit_bytes = 2 << 20;
  int64_t heartbeat_ms = 1'000;
};

struct Engine {
  int64_t queue_max = 1024;
  int64_t running_max = 64;
  int64_t step_tokens_max = 512;
  int64_t steps_ahead = 1;
  bool prefix_cache = true;
  int64_t offer_timeout_ms = 20'000;
  int64_t transfer_timeout_ms = 10'000;
  int64_t vote_deadline_ms = 5'000;
};

struct Controller {
  std::string name = "controller-0";
  std::string routing = "least-loaded";
  int64_t short_prompt_tokens = 0;
  int64_t in_flight_max = 4096;
  int64_t attempts_max = 3;
  int64_t suspect_ms = 3'000;
  int64_t dead_ms = 8'000;
};

struct Batch {
  int64_t window = 128;
  std::string tenant = "batch";
  int64_t stall_timeout_ms = 600'000;
};

// What `baton batch` starts for itself.
struct Cluster {
  int64_t context = 1;
  int64_t generation = 1;
  int64_t mixed = 0;
  int64_t restarts_per_minute = 5;
  int64_t drain_timeout_ms = 10'000;
  std::string log_folder;  // empty: unnamed files, of which a failure shows the last lines
};

struct Log {
  std::string level = "info";
};

struct Config {
  Bus bus;
  Model model;
  Instance instance;
  Engine engine;
  Controller controller;
  Batch batch;
  Cluster cluster;
  Log log;
};

// Applies a TOML file. kNotFound when there is none; kInvalidArgument with file and line for what
// is not TOML, an unknown key (with the nearest known one) or a bad value. A relative model path or
// log folder inside the file is relative to the file.
Status ApplyFile(const std::string& path, Config* config);

// What no single option can see: kInvalidArgument names the keys, their values and the cure.
Status Validate(const Config& config);

// A TOML file with every option that differs from its default. With `redact`, secrets of the
// kafka table read "***".
std::string ToToml(const Config& config, bool redact);

// Does a kafka.* setting hold a secret, by its name?
bool IsSecret(const std::string& kafka_key);

}  // namespace baton::config
