#include <cstring>

#include "src/base/check.h"
#include "src/bus/bus.h"

namespace baton::bus {
namespace {

// MurmurHash2, 32 bits (Austin Appleby), with the seed that Kafka's Java client fixed for good.
uint32_t Murmur2(const std::string& key) {
  constexpr uint32_t kSeed = 0x9747b28c;
  constexpr uint32_t kMultiplier = 0x5bd1e995;
  const auto* bytes = reinterpret_cast<const unsigned char*>(key.data());
  size_t left = key.size();
  uint32_t hash = kSeed ^ static_cast<uint32_t>(left);
  for (; left >= 4; left -= 4, bytes += 4) {
    uint32_t word = static_cast<uint32_t>(bytes[0]) | static_cast<uint32_t>(bytes[1]) << 8 |
                    static_cast<uint32_t>(bytes[2]) << 16 | static_cast<uint32_t>(bytes[3]) << 24;
    word *= kMultiplier;
    word ^= word >> 24;
    word *= kMultiplier;
    hash = (hash * kMultiplier) ^ word;
  }
  if (left >= 3) hash ^= static_cast<uint32_t>(bytes[2]) << 16;
  if (left >= 2) hash ^= static_cast<uint32_t>(bytes[1]) << 8;
  if (left >= 1) hash = (hash ^ bytes[0]) * kMultiplier;
  hash ^= hash >> 13;
  hash *= kMultiplier;
  return hash ^ hash >> 15;
}

}  // namespace

int32_t PartitionOfKey(const std::string& key, int32_t partitions) {
  CHECK(partitions > 0);
  // The sign bit is masked, not negated, as in Kafka's Utils.toPositive.
  return static_cast<int32_t>((Murmur2(key) & 0x7fffffffU) % static_cast<uint32_t>(partitions));
}

}  // namespace baton::bus
