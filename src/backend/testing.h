// What the tests and benchmarks of this room share. Not linked into products.
#pragma once

#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/backend/backend.h"
#include "src/backend/factory.h"
#include "src/model/model.h"

namespace baton::backend {

// The real model, as a test has it among its files.
inline constexpr char kSmolLm2Path[] = "external/smollm2/model.gguf";

// A backend with the memory of its pool.
class TestBackend {
 public:
  // CHECKs that the backend can be made; use MakeBackend itself to test refusals.
  TestBackend(const std::string& name, const model::Model* model, const BackendOptions& options);

  Backend& operator*() { return *backend_; }
  Backend* operator->() { return backend_.get(); }
  // Submits and polls; CHECKs success.
  StepOutput Step(StepInput step);
  // Runs `tokens` of a greedy sequence in chunks of `chunk` (0: all at once), then draws until
  // there are `count` tokens. `blocks` hold the sequence's KV. Opens and closes the sequence.
  std::vector<int32_t> Greedy(std::span<const int32_t> tokens, uint32_t count,
                              std::span<const BlockId> blocks, uint32_t chunk = 0);

 private:
  struct Free {
    void operator()(std::byte* data) const { std::free(data); }
  };
  std::unique_ptr<std::byte, Free> memory_;
  std::unique_ptr<Backend> backend_;
  uint64_t step_ = 0;
  uint64_t admission_ = 1'000'000;
};

// Blocks first, first + 1, ... as many as `tokens` need, in order.
std::vector<BlockId> BlocksFor(uint32_t tokens, uint32_t block_tokens, uint32_t first = 0);

// Shapes with odd tails everywhere: 3 KV heads, sizes that no vector width divides.
model::Config OddConfig();

}  // namespace baton::backend
