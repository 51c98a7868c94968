// What an engine asks of hardware: run steps. Asynchronous everywhere: submit a step, get a ticket,
// poll it, take its tokens; CPU backends complete early. Steps complete in the order of submission
// on the device, but the host may learn of it late, and in any order.
//
// A backend owns this rank's weights and KV pool; it never allocates, frees or moves blocks: the
// plan says which block ids a row uses. One owner thread (the rank's) makes every call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/base/ids.h"
#include "src/base/result.h"
#include "src/model/config.h"
#include "src/wire/messages.h"

namespace baton::backend {

enum class DType : uint8_t { kF32 = 0, kBf16 = 1 };
inline size_t DTypeBytes(DType t) { return t == DType::kF32 ? 4 : 2; }
inline std::string DTypeName(DType t) { return t == DType::kF32 ? "f32" : "bf16"; }

enum class Space : uint8_t { kHost = 0, kDevice = 1 };

// Memory by place, never a bare pointer: links, transfer and KV pass these.
struct Buffer {
  Space space = Space::kHost;
  std::byte* data = nullptr;  // host pointer, or device address when space is kDevice
  size_t bytes = 0;
};

// KV of this rank: [block][layer][K|V][head][token][dim], so that a whole block, a layer range or a
// head range of one layer is a run of bytes.
struct KvShape {
  uint32_t blocks = 0;
  uint32_t layers = 0;    // of this rank
  uint32_t kv_heads = 0;  // of this rank
  uint32_t block_tokens = 16;
  uint32_t head_dim = 0;
  DType dtype = DType::kF32;

  size_t token_bytes() const { return head_dim * DTypeBytes(dtype); }
  size_t head_bytes() const { return block_tokens * token_bytes(); }
  size_t plane_bytes() const { return kv_heads * head_bytes(); }  // K or V of one layer
  size_t layer_bytes() const { return 2 * plane_bytes(); }
  size_t block_bytes() const { return layers * layer_bytes(); }
  size_t pool_bytes() const { return blocks * block_bytes(); }
};

// How rows of one sequence are sampled. The backend keeps what the sampler needs (penalty counts)
// from OpenSequence to CloseSequence.
struct SequenceSpec {
  AdmissionId admission;
  wire::SamplingParams sampling;     // seed is set
  std::vector<int32_t> history;      // tokens that penalties count: the prompt and what followed
  uint32_t prompt_tokens = 0;        // leading part of history that is the prompt
  std::optional<uint32_t> logprobs;  // as in wire::Request
};

// Consecutive positions of one sequence in one step.
struct StepRow {
  AdmissionId admission;
  uint32_t position = 0;        // of the first token
  std::vector<int32_t> tokens;  // at least one
  // >= 0: `tokens` is one placeholder; the input is the output of that row of step `step - 1`.
  int32_t input_from_row = -1;
  std::vector<BlockId> blocks;  // cover positions 0 .. position + tokens.size() - 1
  bool sample = false;          // draw a token after the last position
};

struct StepInput {
  uint64_t step = 0;  // consecutive from 1
  std::vector<StepRow> rows;
};

struct RowOutput {
  AdmissionId admission;
  uint32_t position = 0;  // of the drawn token
  int32_t token = -1;     // -1: the row did not sample
  std::optional<wire::PositionLogprobs> logprobs;
};

struct StepOutput {
  uint64_t step = 0;
  std::vector<RowOutput> rows;  // one per input row, same order
};

using Ticket = uint64_t;

struct Limits {
  uint32_t rows_max = 0;    // rows in one step
  uint32_t tokens_max = 0;  // tokens of all rows in one step
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual const model::Config& config() const = 0;
  virtual const KvShape& kv_shape() const = 0;
  // The pool's memory, for transfer. Stays where it is for the backend's life.
  virtual Buffer kv_pool() = 0;
  virtual Limits limits() const = 0;

  virtual void OpenSequence(SequenceSpec spec) = 0;
  virtual void CloseSequence(AdmissionId admission) = 0;

  // kInvalidArgument for rows that break the limits or lie outside the pool: a bug of the caller.
  virtual Result<Ticket> Submit(const StepInput& step) = 0;
  // Empty while it runs. A ticket is answered once. An error here means that the backend is lost.
  virtual Result<std::optional<StepOutput>> Poll(Ticket ticket) = 0;
};

// Where the pool lives. `memory` must hold shape.pool_bytes(), zero-filled; the caller keeps it
// alive. Lets transfer put the pool into a memfd.
struct BackendOptions {
  DType dtype = DType::kBf16;  // weights and KV
  uint32_t kv_blocks = 0;
  uint32_t block_tokens = 16;
  uint32_t threads = 1;
  Limits limits{64, 512};
};

}  // namespace baton::backend
