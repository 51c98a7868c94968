#include "src/base/rng.h"

#include <fmt/format.h>
#include <sys/random.h>

#include "src/base/check.h"

namespace baton {
namespace {

uint64_t SplitMix64(uint64_t& state) {
  uint64_t z = (state += 0x9e3779b97f4a7c15ULL);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

uint64_t RotateLeft(uint64_t x, int by) { return (x << by) | (x >> (64 - by)); }

}  // namespace

Rng::Rng(uint64_t seed) {
  for (uint64_t& word : state_) word = SplitMix64(seed);
}

uint64_t Rng::Next() {
  const uint64_t result = RotateLeft(state_[0] + state_[3], 23) + state_[0];
  const uint64_t shifted = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= shifted;
  state_[3] = RotateLeft(state_[3], 45);
  return result;
}

uint64_t Rng::Below(uint64_t bound) {
  CHECK(bound > 0);
  // Lemire 2019: multiply, reject the few low products that would bias.
  while (true) {
    const unsigned __int128 product = static_cast<unsigned __int128>(Next()) * bound;
    if (static_cast<uint64_t>(product) >= -bound % bound)
      return static_cast<uint64_t>(product >> 64);
  }
}

double Rng::Uniform() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }

uint64_t RandomSeed() {
  uint64_t seed = 0;
  CHECK(getrandom(&seed, sizeof seed, 0) == sizeof seed, "getrandom");
  return seed;
}

std::string RandomHexId() { return fmt::format("{:016x}{:016x}", RandomSeed(), RandomSeed()); }

}  // namespace baton
