#include "src/batch/seen_ids.h"

#include <xxhash.h>

namespace baton::batch {
namespace {
constexpr size_t kPlacesAtFirst = 1024;
}  // namespace

SeenIds::SeenIds() : table_(kPlacesAtFirst) {}

size_t SeenIds::Find(const std::vector<Hash>& table, const Hash& hash) {
  const size_t mask = table.size() - 1;
  size_t place = hash.low & mask;
  while (table[place] != Hash{} && table[place] != hash) place = (place + 1) & mask;
  return place;
}

bool SeenIds::Insert(std::string_view id) {
  const XXH128_hash_t hashed = XXH3_128bits(id.data(), id.size());
  // The low bit keeps a hash apart from an empty place.
  const Hash hash{hashed.low64, hashed.high64 | 1};
  const size_t place = Find(table_, hash);
  if (table_[place] == hash) return false;
  table_[place] = hash;
  if (++size_ * 2 > table_.size()) Grow();
  return true;
}

void SeenIds::Grow() {
  std::vector<Hash> bigger(table_.size() * 2);
  for (const Hash& hash : table_) {
    if (hash != Hash{}) bigger[Find(bigger, hash)] = hash;
  }
  table_.swap(bigger);
}

}  // namespace baton::batch
