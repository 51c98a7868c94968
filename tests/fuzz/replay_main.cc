// main() of a fuzz target outside libFuzzer: runs the corpus files named as arguments, then
// mutations of them made from a fixed seed, so that an ordinary test run on any compiler keeps what
// fuzzing found. When an input aborts the process, says which one it was.
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "src/base/rng.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace baton {
namespace {

using Bytes = std::vector<uint8_t>;

constexpr uint64_t kSeed = 20260131;
constexpr int kMutations = 2000;

// What runs now, for the abort handler: a corpus file's index, or ~mutation.
volatile std::sig_atomic_t g_running = 0;

void SayWhichAndDie(int signal) {
  // In a dying process only: snprintf is no async-signal-safe call by the letter.
  char text[128];
  const int running = g_running;
  const int bytes = running >= 0
                        ? std::snprintf(text, sizeof text, "input: corpus file %d\n", running)
                        : std::snprintf(text, sizeof text, "input: mutation %d of seed %llu\n",
                                        ~running, static_cast<unsigned long long>(kSeed));
  std::fwrite(text, 1, static_cast<size_t>(bytes), stderr);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

// A fresh allocation of the exact size: AddressSanitizer sees the first byte too far.
void RunOne(const Bytes& input) {
  const Bytes exact(input.begin(), input.end());
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
}

void FlipBytes(Rng& rng, Bytes* bytes) {
  if (bytes->empty()) return;
  for (uint64_t flips = 1 + rng.Below(8); flips > 0; --flips) {
    (*bytes)[rng.Below(bytes->size())] ^= static_cast<uint8_t>(1u << rng.Below(8));
  }
}

void OverwriteBytes(Rng& rng, Bytes* bytes) {
  // Values at which lengths and offsets go wrong.
  constexpr uint8_t kEdges[] = {0x00, 0x01, 0x7f, 0x80, 0xff, '"', '\\', '{', '[', '\n'};
  if (bytes->empty()) return;
  for (uint64_t writes = 1 + rng.Below(4); writes > 0; --writes) {
    (*bytes)[rng.Below(bytes->size())] = kEdges[rng.Below(std::size(kEdges))];
  }
}

// The front of one input and the back of another.
void Splice(Rng& rng, const Bytes& other, Bytes* bytes) {
  bytes->resize(rng.Below(bytes->size() + 1));
  const size_t from = rng.Below(other.size() + 1);
  bytes->insert(bytes->end(), other.begin() + static_cast<ptrdiff_t>(from), other.end());
}

Bytes Mutate(Rng& rng, const std::vector<Bytes>& corpus) {
  Bytes bytes = corpus[rng.Below(corpus.size())];
  switch (rng.Below(4)) {
    case 0:
      FlipBytes(rng, &bytes);
      break;
    case 1:
      OverwriteBytes(rng, &bytes);
      break;
    case 2:
      bytes.resize(rng.Below(bytes.size() + 1));
      break;
    default:
      Splice(rng, corpus[rng.Below(corpus.size())], &bytes);
      FlipBytes(rng, &bytes);
  }
  return bytes;
}

int Replay(int argc, char** argv) {
  std::vector<Bytes> corpus;
  for (int i = 1; i < argc; ++i) {
    std::ifstream file(argv[i], std::ios::binary);
    if (!file) {
      std::fprintf(stderr, "%s: cannot be read\n", argv[i]);
      return 1;
    }
    corpus.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    g_running = i - 1;
    RunOne(corpus.back());
  }
  if (corpus.empty()) {
    std::fprintf(stderr, "no corpus: name its files as arguments\n");
    return 1;
  }
  Rng rng(kSeed);
  for (int i = 0; i < kMutations; ++i) {
    const Bytes mutation = Mutate(rng, corpus);
    g_running = ~i;
    RunOne(mutation);
  }
  std::printf("ran %zu corpus files and %d mutations of seed %llu\n", corpus.size(), kMutations,
              static_cast<unsigned long long>(kSeed));
  return 0;
}

}  // namespace
}  // namespace baton

int main(int argc, char** argv) {
  std::signal(SIGABRT, &baton::SayWhichAndDie);
  return baton::Replay(argc, argv);
}
