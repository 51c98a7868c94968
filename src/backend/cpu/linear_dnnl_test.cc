// Our products against oneDNN's, at the shapes of the real model. Inputs in [-1, 1], products of k
// terms: 1e-6 of k apart at most, in f32 and in bf16 (whose products are exact in f32).
#include <gtest/gtest.h>

#include <tuple>

#include "src/backend/cpu/dnnl_product.h"
#include "src/backend/cpu/linear.h"
#include "src/base/rng.h"

namespace baton::backend::cpu {
namespace {

class LinearDnnlTest : public testing::TestWithParam<std::tuple<DType, uint32_t>> {};

TEST_P(LinearDnnlTest, ProductsAgree) {
  const auto [dtype, m] = GetParam();
  Rng rng(21);
  Pool pool(2);
  const Products products{SupportedKernels().front(), &pool};
  for (const auto& [n, k] : {std::pair{960U, 576U}, {576U, 1536U}, {97U, 45U}}) {
    std::vector<float> x(m * k);
    std::vector<float> w(n * k);
    for (float& value : x) value = static_cast<float>(rng.Uniform() * 2 - 1);
    for (float& value : w) value = static_cast<float>(rng.Uniform() * 2 - 1);
    Activations in(dtype, m, k);
    for (uint32_t r = 0; r < m; ++r) {
      for (uint32_t i = 0; i < k; ++i) {
        if (dtype == DType::kF32) {
          reinterpret_cast<float*>(in.Row(r))[i] = x[r * k + i];
        } else {
          reinterpret_cast<uint16_t*>(in.Row(r))[i] = model::FloatToBf16(x[r * k + i]);
        }
      }
    }
    const model::Tensor tensor = model::Tensor::Owned(n, k, w);
    const model::Tensor* const tensors[] = {&tensor};
    std::vector<float> ours(m * n);
    products.Store(in, Packed::Rows(tensors, dtype, &pool), m, ours.data(), n);
    DnnlProduct dnnl(dtype, m, n, k, x, w);
    const std::vector<float>& theirs = dnnl.Run();
    for (size_t i = 0; i < ours.size(); ++i) {
      ASSERT_NEAR(ours[i], theirs[i], 1e-6F * static_cast<float>(k)) << n << " x " << k << " " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, LinearDnnlTest,
                         testing::Combine(testing::Values(DType::kF32, DType::kBf16),
                                          testing::Values(1U, 32U, 65U)));

}  // namespace
}  // namespace baton::backend::cpu
