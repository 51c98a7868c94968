// One rank of an instance, put together: model, KV pool, backend, transport, executor, leader.
#pragma once

#include <atomic>
#include <string>

#include "src/backend/backend.h"
#include "src/base/clock.h"
#include "src/base/result.h"
#include "src/bus/bus.h"
#include "src/engine/executor.h"
#include "src/instance/leader.h"
#include "src/wire/messages.h"
#include "src/wire/topics.h"

namespace baton::instance {

struct InstanceOptions {
  std::string name;  // stable over restarts, unique in the cluster
  wire::Role role = wire::Role::kMixed;
  wire::Topics topics;
  std::string model_path;
  std::string model_name;       // that requests use; empty: the file's own
  std::string backend = "cpu";  // "reference", "cpu"
  backend::BackendOptions backend_options;
  std::string transport = "mapped";  // "mapped", "ucx"
  // Private folder of this process for sockets; exists, at most 80 characters.
  std::string folder;
  engine::ExecOptions engine;
  uint32_t max_running = 64;      // credits given to the controller
  uint64_t max_bytes = 2u << 20;  // of assignments; the embedded cluster drops data past 5 MiB
  Nanos heartbeat_interval = std::chrono::seconds(1);
  Nanos drain_timeout = std::chrono::seconds(10);
};

// Loads the model, registers, serves. Returns OK after `stop` and a drain; kInvalidArgument and
// kNotFound for bad options or files; kAborted when fenced; anything else means that the process
// has lost its engine or the broker and must exit non-zero.
Status RunInstanceRank(const InstanceOptions& options, bus::Bus* bus, Clock* clock,
                       const std::atomic<bool>& stop);

}  // namespace baton::instance
