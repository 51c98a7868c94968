// Random numbers that a seed repeats on every platform. xoshiro256++ (Blackman and Vigna, 2019),
// seeded through splitmix64. Not for secrets. Not thread-safe; one owner each.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace baton {

class Rng {
 public:
  explicit Rng(uint64_t seed);
  uint64_t Next();
  // Uniform in [0, bound); bound > 0.
  uint64_t Below(uint64_t bound);
  // Uniform in [0, 1), 53 bits.
  double Uniform();
  // True with probability p.
  bool Chance(double p) { return Uniform() < p; }

 private:
  std::array<uint64_t, 4> state_;
};

// From the operating system's entropy: for incarnations and generated ids.
uint64_t RandomSeed();
// 32 lower-case hex digits from the operating system's entropy.
std::string RandomHexId();

}  // namespace baton
