// Strong types for everything that is counted or named, so that an attempt cannot pass for an
// epoch.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <string>

namespace baton {

template <typename Tag, typename Rep>
struct StrongId {
  Rep value{};
  constexpr StrongId() = default;
  constexpr explicit StrongId(Rep v) : value(std::move(v)) {}
  friend auto operator<=>(const StrongId&, const StrongId&) = default;
};

// Who asks: two tenants may use the same request id.
struct Identity {
  std::string tenant;
  std::string request_id;
  friend auto operator<=>(const Identity&, const Identity&) = default;
  // "tenant/request": the Kafka key. '/' and '%' inside either part are percent-encoded.
  std::string Key() const;
  static bool FromKey(const std::string& key, Identity* identity);
};

using Attempt = StrongId<struct AttemptTag, uint32_t>;  // 1 is the first
using ControllerEpoch = StrongId<struct ControllerEpochTag, uint64_t>;
using InstanceEpoch =
    StrongId<struct InstanceEpochTag, uint64_t>;                // given by the controller's grant
using LeaseNumber = StrongId<struct LeaseNumberTag, uint64_t>;  // of a slot
using Slot = StrongId<struct SlotTag, uint32_t>;                // partition of baton.assign
using AdmissionId =
    StrongId<struct AdmissionIdTag, uint64_t>;                // leader's; never reused in an epoch
using PlanNumber = StrongId<struct PlanNumberTag, uint64_t>;  // consecutive from 1
using BlockId = StrongId<struct BlockIdTag, uint32_t>;        // same on every rank
using Rank = StrongId<struct RankTag, uint32_t>;

}  // namespace baton

template <typename Tag, typename Rep>
struct std::hash<baton::StrongId<Tag, Rep>> {
  size_t operator()(const baton::StrongId<Tag, Rep>& id) const {
    return std::hash<Rep>()(id.value);
  }
};

template <>
struct std::hash<baton::Identity> {
  size_t operator()(const baton::Identity& identity) const {
    return std::hash<std::string>()(identity.tenant) * 31 +
           std::hash<std::string>()(identity.request_id);
  }
};
