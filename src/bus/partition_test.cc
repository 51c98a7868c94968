#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "src/bus/bus.h"

namespace baton::bus {
namespace {

constexpr int32_t kWholeHash = INT32_MAX;  // as many partitions as positive hashes: shows the hash

int32_t Positive(int32_t murmur2) { return murmur2 & 0x7fffffff; }

// Hashes that Apache Kafka publishes for its Java client, which uses the same function.
TEST(PartitionOfKey, AgreesWithTheJavaClient) {
  EXPECT_EQ(PartitionOfKey("21", kWholeHash), Positive(-973932308));
  EXPECT_EQ(PartitionOfKey("foobar", kWholeHash), Positive(-790332482));
  EXPECT_EQ(PartitionOfKey("a-little-bit-long-string", kWholeHash), Positive(-985981536));
  EXPECT_EQ(PartitionOfKey("a-little-bit-longer-string", kWholeHash), Positive(-1486304829));
  EXPECT_EQ(PartitionOfKey("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", kWholeHash),
            Positive(-58897971));
  EXPECT_EQ(PartitionOfKey("abc", kWholeHash), Positive(479470107));
}

TEST(PartitionOfKey, StaysInsideThePartitions) {
  for (int32_t partitions : {1, 2, 3, 16, 256}) {
    for (int i = 0; i < 200; ++i) {
      const int32_t partition = PartitionOfKey(std::string(i, '\xff'), partitions);
      EXPECT_GE(partition, 0);
      EXPECT_LT(partition, partitions);
    }
  }
}

}  // namespace
}  // namespace baton::bus
