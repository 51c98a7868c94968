// How far each input partition is settled: the contiguous prefix of what was read and needs no
// second reading. Owner: the controller's thread. Bounded by what is read and not settled, which
// the ledger's bound on requests in flight limits.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace baton::controller {

class Positions {
 public:
  struct Position {
    std::string topic;
    int32_t partition = 0;
    int64_t offset = 0;  // next to read
    friend bool operator==(const Position&, const Position&) = default;
  };

  // Where a stored position begins.
  void Start(const std::string& topic, int32_t partition, int64_t offset);
  void Read(const std::string& topic, int32_t partition, int64_t offset);
  // Unknown offsets are ignored: they were settled before.
  void Settle(const std::string& topic, int32_t partition, int64_t offset);
  // What moved since the last call.
  std::vector<Position> TakeMoved();
  // -1 when nothing is known of the partition.
  int64_t Get(const std::string& topic, int32_t partition) const;
  size_t open() const { return open_; }

 private:
  struct Partition {
    int64_t next = 0;        // after the highest offset read
    std::set<int64_t> open;  // read, not settled
    int64_t taken = -1;      // reported by TakeMoved
    int64_t position() const { return open.empty() ? next : *open.begin(); }
  };
  std::map<std::pair<std::string, int32_t>, Partition> partitions_;
  size_t open_ = 0;
};

}  // namespace baton::controller
