#include "src/transfer/crc32c.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "src/base/rng.h"

namespace baton::transfer {
namespace {

TEST(Crc32c, KnownAnswersOfRfc3720) {
  EXPECT_EQ(Crc32c("123456789", 9), 0xe3069283u);
  EXPECT_EQ(Crc32c(std::string(32, '\0').data(), 32), 0x8a9136aau);
  EXPECT_EQ(Crc32c(std::string(32, '\xff').data(), 32), 0x62a8ab43u);
  EXPECT_EQ(Crc32c("", 0), 0u);
}

TEST(Crc32c, InstructionAndTableAgreeAtAllLengthsAndAlignments) {
  Rng rng(3);
  std::vector<uint8_t> bytes(60000);
  for (uint8_t& b : bytes) b = static_cast<uint8_t>(rng.Next());
  for (size_t n = 0; n < 300; ++n) {
    ASSERT_EQ(Crc32c(&bytes[n % 9], n), Crc32cPortable(&bytes[n % 9], n)) << n;
  }
  for (int i = 0; i < 300; ++i) {
    const size_t begin = rng.Below(100);
    const size_t n = rng.Below(bytes.size() - begin);
    ASSERT_EQ(Crc32c(&bytes[begin], n), Crc32cPortable(&bytes[begin], n)) << begin << " " << n;
  }
}

}  // namespace
}  // namespace baton::transfer
