// The Executor over any group of ranks: the engine thread around EngineCore. Executor::Create
// (executor_create.cc) makes one for a single rank in this process; an instance of several ranks
// brings its own RankGroup.
#pragma once

#include <memory>

#include "src/engine/engine_core.h"
#include "src/engine/executor.h"

namespace baton::engine {

struct ExecutorParts {
  EngineParts engine;  // `ranks` is filled in from below
  std::unique_ptr<RankGroup> ranks;
  transfer::TransportPair transports;  // only held, so that they outlive the ranks; may be empty
  const Clock* clock = nullptr;        // outlives the executor
};

// Starts the engine thread. The destructor cancels what runs and joins it.
std::unique_ptr<Executor> MakeExecutor(ExecutorParts parts);

}  // namespace baton::engine
