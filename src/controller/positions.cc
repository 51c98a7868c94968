#include "src/controller/positions.h"

#include <algorithm>

namespace baton::controller {

void Positions::Start(const std::string& topic, int32_t partition, int64_t offset) {
  Partition& p = partitions_[{topic, partition}];
  p.next = offset;
  p.taken = offset;
}

void Positions::Read(const std::string& topic, int32_t partition, int64_t offset) {
  Partition& p = partitions_[{topic, partition}];
  if (p.open.insert(offset).second) ++open_;
  p.next = std::max(p.next, offset + 1);
}

void Positions::Settle(const std::string& topic, int32_t partition, int64_t offset) {
  const auto found = partitions_.find({topic, partition});
  if (found != partitions_.end()) open_ -= found->second.open.erase(offset);
}

std::vector<Positions::Position> Positions::TakeMoved() {
  std::vector<Position> moved;
  for (auto& [key, p] : partitions_) {
    if (p.position() == p.taken) continue;
    p.taken = p.position();
    moved.push_back({key.first, key.second, p.taken});
  }
  return moved;
}

int64_t Positions::Get(const std::string& topic, int32_t partition) const {
  const auto found = partitions_.find({topic, partition});
  return found == partitions_.end() ? -1 : found->second.position();
}

}  // namespace baton::controller
