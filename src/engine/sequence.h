// One request as the scheduler sees it. Owned by the Scheduler; plain data.
//
// Positions: `scheduled` <= tokens.size() + unread. A plan computes positions [scheduled, ...) and,
// when it reaches the end of what is known, draws the next token. `unread` draws are in steps whose
// outputs the host has not seen.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/base/clock.h"
#include "src/base/ids.h"
#include "src/kv/prefix_cache.h"
#include "src/wire/messages.h"

namespace baton::engine {

enum class SequenceState : uint8_t {
  kWaiting,    // not admitted: ranks do not know it, it holds no block
  kFetching,   // its KV is on the way
  kRunning,    // in steps
  kFinishing,  // in no further step; holds its blocks until every rank voted
};

struct Sequence {
  AdmissionId admission;
  std::vector<int32_t> tokens;  // prompt, then accepted tokens
  uint32_t prompt_tokens = 0;
  uint32_t max_new = 0;  // tokens to generate, first tokens of a hand-off included
  wire::SamplingParams sampling;
  std::optional<uint32_t> logprobs;
  std::string salt;
  std::optional<wire::HandoffDescriptor> handoff;  // fetch this first
  std::string receiver;
  MonoTime deadline = MonoTime::Max();
  uint32_t worst_blocks = 0;  // what it can ever need

  SequenceState state = SequenceState::kWaiting;
  std::vector<BlockId> blocks;
  uint32_t cached_tokens = 0;
  kv::ChainCursor cursor;  // how far its blocks are indexed
  uint32_t scheduled = 0;  // positions computed by plans that were emitted
  uint32_t executed = 0;   // positions known to be computed on every rank
  uint32_t unread = 0;
  uint64_t last_step = 0;  // of the newest draw
  int32_t last_row = -1;
  PlanNumber last_plan;  // the newest that names it
  bool tainted = false;  // a computation failed: its blocks must not be shared

  uint32_t drawn() const { return static_cast<uint32_t>(tokens.size()) + unread; }
  bool wants_more() const { return drawn() - prompt_tokens < max_new; }
};

}  // namespace baton::engine
