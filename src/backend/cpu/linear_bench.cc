// Our product beside oneDNN's: 1, 32 and 512 rows through the two shapes of the real model's MLP.
//   bazel run //src/backend/cpu:linear_bench
#include <benchmark/benchmark.h>

#include "src/backend/cpu/dnnl_product.h"
#include "src/backend/cpu/linear.h"

namespace baton::backend::cpu {
namespace {

void Count(benchmark::State& state, uint32_t m, uint32_t n, uint32_t k) {
  state.counters["flop/s"] = benchmark::Counter(
      2.0 * m * n * k * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}

// Arguments: bf16?, rows, columns, depth.
void Ours(benchmark::State& state) {
  const DType dtype = state.range(0) != 0 ? DType::kBf16 : DType::kF32;
  const auto m = static_cast<uint32_t>(state.range(1));
  const auto n = static_cast<uint32_t>(state.range(2));
  const auto k = static_cast<uint32_t>(state.range(3));
  Pool pool(2);
  const Products products{SupportedKernels().front(), &pool};
  const model::Tensor tensor = model::Tensor::Random(n, k, 1, 0, 1);
  const model::Tensor* const tensors[] = {&tensor};
  const Packed packed = Packed::Rows(tensors, dtype, &pool);
  const Activations in(dtype, m, k);
  std::vector<float> out(size_t{m} * n);
  for (auto _ : state) products.Store(in, packed, m, out.data(), n);
  Count(state, m, n, k);
}

void Dnnl(benchmark::State& state) {
  const DType dtype = state.range(0) != 0 ? DType::kBf16 : DType::kF32;
  const auto m = static_cast<uint32_t>(state.range(1));
  const auto n = static_cast<uint32_t>(state.range(2));
  const auto k = static_cast<uint32_t>(state.range(3));
  const model::Tensor tensor = model::Tensor::Random(n, k, 1, 0, 1);
  DnnlProduct product(dtype, m, n, k, std::vector<float>(size_t{m} * k), tensor.ReadAll());
  for (auto _ : state) product.Run();
  Count(state, m, n, k);
}

void Shapes(benchmark::internal::Benchmark* bench) {
  for (const int bf16 : {0, 1}) {
    for (const int m : {1, 32, 512}) {
      bench->Args({bf16, m, 3072, 576});
      bench->Args({bf16, m, 576, 1536});
    }
  }
}

BENCHMARK(Ours)->Apply(Shapes)->UseRealTime();
BENCHMARK(Dnnl)->Apply(Shapes)->UseRealTime();

}  // namespace
}  // namespace baton::backend::cpu

BENCHMARK_MAIN();
