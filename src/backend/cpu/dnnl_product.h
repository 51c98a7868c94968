// The same product through oneDNN: the independent check on our own, and the figure beside it.
// Tests and benchmarks only.
#pragma once

#include <cstdint>
#include <vector>

#include "src/backend/backend.h"

namespace baton::backend::cpu {

// Weights [n][k] and inputs [m][k] in one dtype, outputs [m][n] in f32. Made once, run often; owns
// copies of all three. One thread calls; oneDNN uses its own.
class DnnlProduct {
 public:
  DnnlProduct(DType dtype, uint32_t m, uint32_t n, uint32_t k, const std::vector<float>& inputs,
              const std::vector<float>& weights);
  ~DnnlProduct();
  DnnlProduct(const DnnlProduct&) = delete;
  DnnlProduct& operator=(const DnnlProduct&) = delete;
  const std::vector<float>& Run();

 private:
  struct Impl;
  Impl* impl_;
};

}  // namespace baton::backend::cpu
