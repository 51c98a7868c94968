// Which rank holds which layers and KV heads, and who reads what from whom in a hand-off: pure
// functions of two layouts. Layers and heads here are numbers in the whole model. Thread-safe.
//
// Rank r of an instance is stage r / tp, column r % tp. Stages hold consecutive layers as
// layers_per_stage says. Columns hold consecutive KV heads: with kv_heads >= tp, column c holds
// [c * kv_heads / tp, (c + 1) * kv_heads / tp) (rounded down, so splits may be uneven); with fewer
// heads than columns, column c holds the one head c * kv_heads / tp, so neighbours hold replicas.
#pragma once

#include <cstdint>
#include <vector>

#include "src/backend/backend.h"
#include "src/base/result.h"
#include "src/wire/messages.h"

namespace baton::transfer {

inline constexpr uint32_t kRanksMax = 1024;  // tp * pp
inline constexpr uint32_t kStagesMax = 256;

struct Range {
  uint32_t begin = 0;
  uint32_t end = 0;  // one past the last
  uint32_t size() const { return end - begin; }
  bool empty() const { return begin >= end; }
  bool contains(uint32_t i) const { return begin <= i && i < end; }
  friend bool operator==(const Range&, const Range&) = default;
};

Range Intersect(Range a, Range b);

// kInvalidArgument, with the field and its value, for a layout that no instance can have. The
// functions below expect one that passed.
Status CheckLayout(const wire::Layout& layout);

inline uint32_t RankCount(const wire::Layout& layout) { return layout.tp * layout.pp; }
inline uint32_t StageOf(const wire::Layout& layout, uint32_t rank) { return rank / layout.tp; }
inline uint32_t ColumnOf(const wire::Layout& layout, uint32_t rank) { return rank % layout.tp; }
Range LayersOfStage(const wire::Layout& layout, uint32_t stage);
Range KvHeadsOfColumn(const wire::Layout& layout, uint32_t column);

// The pool of one rank. `blocks` is the pool's size.
backend::KvShape ShapeOf(const wire::Layout& layout, uint32_t rank, uint32_t blocks);

struct Slice {
  Range layers;
  Range heads;
  friend bool operator==(const Slice&, const Slice&) = default;
};

// What a receiver has to do with one rank of the owner.
struct Leg {
  uint32_t owner_rank = 0;
  // Empty: nothing to read, but the receiver still asks and ends, because no receiver reads from
  // that rank and its lease would wait for its deadline otherwise.
  std::vector<Slice> slices;
  friend bool operator==(const Leg&, const Leg&) = default;
};

// The legs of one receiver rank, ascending by owner rank. Each (layer, head) of the receiver is in
// exactly one slice. Of several owners with the same head one is picked by the receiver's place, so
// that receivers spread over replicas. Needs CheckPairing() OK.
std::vector<Leg> PlanLegs(const wire::Layout& owner, const wire::Layout& receiver,
                          uint32_t receiver_rank);

// Receiver ranks with a leg to `owner_rank`, ascending; never empty. The owner's lease is done when
// all of them are.
std::vector<uint32_t> ReadersOf(const wire::Layout& owner, const wire::Layout& receiver,
                                uint32_t owner_rank);

}  // namespace baton::transfer
