// Responses between the engine thread and whoever awaits them. At most one per request is held:
// parts of a stream that nobody took are joined. Thread-safe.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "src/engine/executor.h"

namespace baton::engine {

class Outbox {
 public:
  void Put(ExecResponse response);
  // All that are there, oldest first; waits for the first for at most `timeout`, not after Close.
  std::vector<ExecResponse> TakeAny(Nanos timeout);
  std::vector<ExecResponse> Take(std::span<const ExecId> ids, Nanos timeout);
  // Nothing will be put any more.
  void Close();
  size_t size() const;

 private:
  std::vector<ExecResponse> TakeLocked(std::span<const ExecId> ids);

  mutable std::mutex mutex_;
  std::condition_variable ready_;
  std::map<uint64_t, ExecResponse> responses_;  // by arrival of the first part
  std::unordered_map<ExecId, uint64_t> arrivals_;
  uint64_t next_ = 0;
  bool closed_ = false;
};

}  // namespace baton::engine
