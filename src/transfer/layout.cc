#include "src/transfer/layout.h"

#include <algorithm>
#include <string>

#include "src/transfer/transfer.h"

namespace baton::transfer {
namespace {

constexpr uint32_t kDimensionMax = 1u << 16;  // of any one count; keeps products far from 2^64

Status Bad(const std::string& field, uint64_t value, const std::string& rule) {
  return InvalidArgumentError("layout: " + field + " is " + std::to_string(value) + ", " + rule);
}

Status CheckCount(const std::string& field, uint32_t value, uint32_t max) {
  if (value >= 1 && value <= max) return OkStatus();
  return Bad(field, value, "must be 1.." + std::to_string(max));
}

template <typename T>
Status Same(const std::string& field, const T& owner, const T& receiver) {
  if (owner == receiver) return OkStatus();
  std::string a;
  std::string b;
  if constexpr (std::is_same_v<T, std::string>) {
    a = "'" + owner + "'";
    b = "'" + receiver + "'";
  } else {
    a = std::to_string(owner);
    b = std::to_string(receiver);
  }
  return InvalidArgumentError("layouts cannot meet: " + field + " is " + a + " at the owner and " +
                              b + " at the receiver");
}

// Columns that hold `head`: consecutive, because both ends of KvHeadsOfColumn only grow with the
// column.
Range ColumnsWithHead(const wire::Layout& layout, uint32_t head) {
  const auto first_where = [&](auto past) {
    uint32_t low = 0;
    uint32_t high = layout.tp;
    while (low < high) {
      const uint32_t middle = low + (high - low) / 2;
      if (past(KvHeadsOfColumn(layout, middle))) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return low;
  };
  return {first_where([&](Range heads) { return heads.end > head; }),
          first_where([&](Range heads) { return heads.begin > head; })};
}

// The legs that read something.
std::vector<Leg> ReadingLegs(const wire::Layout& owner, const wire::Layout& receiver,
                             uint32_t receiver_rank) {
  const uint32_t stage = StageOf(receiver, receiver_rank);
  const uint32_t column = ColumnOf(receiver, receiver_rank);
  const Range layers = LayersOfStage(receiver, stage);
  const Range heads = KvHeadsOfColumn(receiver, column);
  std::vector<Leg> legs;
  for (uint32_t owner_stage = 0; owner_stage < owner.pp; ++owner_stage) {
    const Range shared = Intersect(layers, LayersOfStage(owner, owner_stage));
    if (shared.empty()) continue;
    for (uint32_t head = heads.begin; head < heads.end; ++head) {
      const Range replicas = ColumnsWithHead(owner, head);
      const uint32_t picked = replicas.begin + (column + stage) % replicas.size();
      const uint32_t owner_rank = owner_stage * owner.tp + picked;
      if (legs.empty() || legs.back().owner_rank != owner_rank) legs.push_back({owner_rank, {}});
      std::vector<Slice>& slices = legs.back().slices;
      if (!slices.empty() && slices.back().heads.end == head) {
        slices.back().heads.end = head + 1;
      } else {
        slices.push_back({shared, {head, head + 1}});
      }
    }
  }
  return legs;
}

bool HasLeg(const std::vector<Leg>& legs, uint32_t owner_rank) {
  return std::any_of(legs.begin(), legs.end(),
                     [&](const Leg& leg) { return leg.owner_rank == owner_rank; });
}

}  // namespace

Range Intersect(Range a, Range b) {
  const Range both{std::max(a.begin, b.begin), std::min(a.end, b.end)};
  return both.empty() ? Range{} : both;
}

Status CheckLayout(const wire::Layout& layout) {
  BATON_RETURN_IF_ERROR(CheckCount("tp", layout.tp, kRanksMax));
  BATON_RETURN_IF_ERROR(CheckCount("pp", layout.pp, kStagesMax));
  BATON_RETURN_IF_ERROR(CheckCount("tp * pp", layout.tp * layout.pp, kRanksMax));
  BATON_RETURN_IF_ERROR(CheckCount("layers", layout.layers, kDimensionMax));
  BATON_RETURN_IF_ERROR(CheckCount("kv_heads", layout.kv_heads, kDimensionMax));
  BATON_RETURN_IF_ERROR(CheckCount("head_dim", layout.head_dim, kDimensionMax));
  BATON_RETURN_IF_ERROR(CheckCount("block_tokens", layout.block_tokens, kDimensionMax));
  if (layout.layers_per_stage.size() != layout.pp) {
    return Bad("size of layers_per_stage", layout.layers_per_stage.size(),
               "must be pp = " + std::to_string(layout.pp));
  }
  uint64_t sum = 0;
  for (const uint32_t layers : layout.layers_per_stage) {
    BATON_RETURN_IF_ERROR(CheckCount("an entry of layers_per_stage", layers, kDimensionMax));
    sum += layers;
  }
  if (sum != layout.layers) {
    return Bad("sum of layers_per_stage", sum, "must be layers = " + std::to_string(layout.layers));
  }
  if (layout.kv_dtype != "f32" && layout.kv_dtype != "bf16") {
    return InvalidArgumentError("layout: kv_dtype is '" + layout.kv_dtype +
                                "', must be f32 or bf16");
  }
  return OkStatus();
}

Range LayersOfStage(const wire::Layout& layout, uint32_t stage) {
  CHECK(stage < layout.layers_per_stage.size());
  uint32_t begin = 0;
  for (uint32_t s = 0; s < stage; ++s) begin += layout.layers_per_stage[s];
  return {begin, begin + layout.layers_per_stage[stage]};
}

Range KvHeadsOfColumn(const wire::Layout& layout, uint32_t column) {
  CHECK(column < layout.tp);
  const uint32_t begin = static_cast<uint32_t>(uint64_t{column} * layout.kv_heads / layout.tp);
  if (layout.kv_heads < layout.tp) return {begin, begin + 1};
  return {begin, static_cast<uint32_t>(uint64_t{column + 1} * layout.kv_heads / layout.tp)};
}

backend::KvShape ShapeOf(const wire::Layout& layout, uint32_t rank, uint32_t blocks) {
  backend::KvShape shape;
  shape.blocks = blocks;
  shape.layers = LayersOfStage(layout, StageOf(layout, rank)).size();
  shape.kv_heads = KvHeadsOfColumn(layout, ColumnOf(layout, rank)).size();
  shape.block_tokens = layout.block_tokens;
  shape.head_dim = layout.head_dim;
  shape.dtype = layout.kv_dtype == "f32" ? backend::DType::kF32 : backend::DType::kBf16;
  return shape;
}

std::vector<Leg> PlanLegs(const wire::Layout& owner, const wire::Layout& receiver,
                          uint32_t receiver_rank) {
  const uint32_t receivers = RankCount(receiver);
  CHECK(receiver_rank < receivers);
  std::vector<Leg> legs = ReadingLegs(owner, receiver, receiver_rank);
  std::vector<bool> read(RankCount(owner), false);
  for (uint32_t r = 0; r < receivers; ++r) {
    for (const Leg& leg : ReadingLegs(owner, receiver, r)) read[leg.owner_rank] = true;
  }
  for (uint32_t o = 0; o < RankCount(owner); ++o) {
    if (!read[o] && o % receivers == receiver_rank) legs.push_back({o, {}});
  }
  std::sort(legs.begin(), legs.end(),
            [](const Leg& a, const Leg& b) { return a.owner_rank < b.owner_rank; });
  return legs;
}

std::vector<uint32_t> ReadersOf(const wire::Layout& owner, const wire::Layout& receiver,
                                uint32_t owner_rank) {
  CHECK(owner_rank < RankCount(owner));
  std::vector<uint32_t> readers;
  for (uint32_t r = 0; r < RankCount(receiver); ++r) {
    if (HasLeg(ReadingLegs(owner, receiver, r), owner_rank)) readers.push_back(r);
  }
  if (readers.empty()) readers.push_back(owner_rank % RankCount(receiver));
  return readers;
}

Status CheckPairing(const wire::Layout& owner, const wire::Layout& receiver) {
  if (Status s = CheckLayout(owner); !s.ok()) return s.WithContext("owner");
  if (Status s = CheckLayout(receiver); !s.ok()) return s.WithContext("receiver");
  BATON_RETURN_IF_ERROR(Same("weights_hash", owner.weights_hash, receiver.weights_hash));
  BATON_RETURN_IF_ERROR(Same("kv_dtype", owner.kv_dtype, receiver.kv_dtype));
  BATON_RETURN_IF_ERROR(Same("block_tokens", owner.block_tokens, receiver.block_tokens));
  BATON_RETURN_IF_ERROR(Same("rope", owner.rope, receiver.rope));
  BATON_RETURN_IF_ERROR(Same("layers", owner.layers, receiver.layers));
  BATON_RETURN_IF_ERROR(Same("heads", owner.heads, receiver.heads));
  BATON_RETURN_IF_ERROR(Same("kv_heads", owner.kv_heads, receiver.kv_heads));
  return Same("head_dim", owner.head_dim, receiver.head_dim);
}

}  // namespace baton::transfer
