// The bytes of one leg as a stream: for each block in turn, the runs that lie together on both
// sides. Owner and receiver compute the same stream from the same layouts, so that an offset in it
// means the same bytes to both. Pure; thread-safe when const.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "src/base/ids.h"
#include "src/transfer/layout.h"

namespace baton::transfer {

// Offsets within one block of each side.
struct Run {
  uint64_t owner_offset = 0;
  uint64_t receiver_offset = 0;
  uint64_t bytes = 0;
  uint64_t stream_offset = 0;  // within the block's part of the stream
};

class LegStream {
 public:
  LegStream() = default;
  // `owner_blocks` and `receiver_blocks` run in parallel; the first `skip_blocks` are not sent.
  // Either may be empty when that side's offsets are of no interest (zero is reported then), as
  // long as `block_count` is right.
  LegStream(const wire::Layout& owner, const wire::Layout& receiver, uint32_t receiver_rank,
            const Leg& leg, uint32_t block_count, uint32_t skip_blocks,
            std::vector<uint32_t> owner_blocks, std::vector<uint32_t> receiver_blocks);

  uint64_t total_bytes() const { return blocks_sent_ * block_stream_bytes_; }
  uint64_t owner_block_bytes() const { return owner_block_bytes_; }
  const std::vector<Run>& runs() const { return runs_; }

  // Calls fn(owner pool offset, receiver pool offset, bytes) for the pieces of stream range
  // [offset, offset + bytes), in order. The range must lie inside the stream.
  void ForEach(uint64_t offset, uint64_t bytes,
               const std::function<void(uint64_t, uint64_t, uint64_t)>& fn) const;

 private:
  std::vector<Run> runs_;
  uint64_t block_stream_bytes_ = 0;
  uint64_t blocks_sent_ = 0;
  uint32_t skip_ = 0;
  uint64_t owner_block_bytes_ = 0;
  uint64_t receiver_block_bytes_ = 0;
  std::vector<uint32_t> owner_blocks_;
  std::vector<uint32_t> receiver_blocks_;
};

}  // namespace baton::transfer
