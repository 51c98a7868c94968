#include "src/transfer/runs.h"

#include <algorithm>
#include <utility>

#include "src/base/check.h"

namespace baton::transfer {
namespace {

// Of one side: where K or V of a head range of a layer begins within a block.
uint64_t OffsetInBlock(const backend::KvShape& shape, uint32_t layer, uint32_t kv, uint32_t head) {
  return layer * shape.layer_bytes() + kv * shape.plane_bytes() + head * shape.head_bytes();
}

void AppendRun(Run run, std::vector<Run>* runs) {
  if (!runs->empty()) {
    Run& last = runs->back();
    if (last.owner_offset + last.bytes == run.owner_offset &&
        last.receiver_offset + last.bytes == run.receiver_offset) {
      last.bytes += run.bytes;
      return;
    }
    run.stream_offset = last.stream_offset + last.bytes;
  }
  runs->push_back(run);
}

}  // namespace

LegStream::LegStream(const wire::Layout& owner, const wire::Layout& receiver,
                     uint32_t receiver_rank, const Leg& leg, uint32_t block_count,
                     uint32_t skip_blocks, std::vector<uint32_t> owner_blocks,
                     std::vector<uint32_t> receiver_blocks)
    : blocks_sent_(block_count - skip_blocks),
      skip_(skip_blocks),
      owner_blocks_(std::move(owner_blocks)),
      receiver_blocks_(std::move(receiver_blocks)) {
  CHECK(skip_blocks <= block_count);
  CHECK(owner_blocks_.empty() || owner_blocks_.size() == block_count);
  CHECK(receiver_blocks_.empty() || receiver_blocks_.size() == block_count);
  const backend::KvShape from = ShapeOf(owner, leg.owner_rank, 1);
  const backend::KvShape to = ShapeOf(receiver, receiver_rank, 1);
  owner_block_bytes_ = from.block_bytes();
  receiver_block_bytes_ = to.block_bytes();
  const uint32_t from_layer = LayersOfStage(owner, StageOf(owner, leg.owner_rank)).begin;
  const uint32_t from_head = KvHeadsOfColumn(owner, ColumnOf(owner, leg.owner_rank)).begin;
  const uint32_t to_layer = LayersOfStage(receiver, StageOf(receiver, receiver_rank)).begin;
  const uint32_t to_head = KvHeadsOfColumn(receiver, ColumnOf(receiver, receiver_rank)).begin;
  for (const Slice& slice : leg.slices) {
    const uint64_t bytes = slice.heads.size() * from.head_bytes();
    for (uint32_t layer = slice.layers.begin; layer < slice.layers.end; ++layer) {
      for (uint32_t kv = 0; kv < 2; ++kv) {
        AppendRun({OffsetInBlock(from, layer - from_layer, kv, slice.heads.begin - from_head),
                   OffsetInBlock(to, layer - to_layer, kv, slice.heads.begin - to_head), bytes, 0},
                  &runs_);
      }
    }
  }
  for (const Run& run : runs_) block_stream_bytes_ += run.bytes;
}

void LegStream::ForEach(uint64_t offset, uint64_t bytes,
                        const std::function<void(uint64_t, uint64_t, uint64_t)>& fn) const {
  CHECK(offset <= total_bytes() && bytes <= total_bytes() - offset);
  while (bytes > 0) {
    const uint64_t block = skip_ + offset / block_stream_bytes_;
    const uint64_t within = offset % block_stream_bytes_;
    const uint64_t owner_base = owner_blocks_.empty() ? 0 : owner_blocks_[block];
    const uint64_t receiver_base = receiver_blocks_.empty() ? 0 : receiver_blocks_[block];
    auto run = std::upper_bound(runs_.begin(), runs_.end(), within,
                                [](uint64_t at, const Run& r) { return at < r.stream_offset; });
    --run;
    const uint64_t into = within - run->stream_offset;
    const uint64_t piece = std::min(run->bytes - into, bytes);
    fn(owner_base * owner_block_bytes_ + run->owner_offset + into,
       receiver_base * receiver_block_bytes_ + run->receiver_offset + into, piece);
    offset += piece;
    bytes -= piece;
  }
}

}  // namespace baton::transfer
