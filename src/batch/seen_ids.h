// Which custom_ids a job has met, as 128-bit hashes: 32 bytes a line at most half full, whatever
// the ids' lengths. Two different ids among ten million collide with a chance below 1e-24. One
// owner thread.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace baton::batch {

class SeenIds {
 public:
  SeenIds();
  // False when `id` was there before.
  bool Insert(std::string_view id);
  size_t size() const { return size_; }

 private:
  struct Hash {
    uint64_t low = 0;
    uint64_t high = 0;  // both 0: an empty place
    friend bool operator==(const Hash&, const Hash&) = default;
  };
  // The place of `hash`: where it is or where it belongs.
  static size_t Find(const std::vector<Hash>& table, const Hash& hash);
  void Grow();

  std::vector<Hash> table_;  // open addressing; a power of two
  size_t size_ = 0;
};

}  // namespace baton::batch
