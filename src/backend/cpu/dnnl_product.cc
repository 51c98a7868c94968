#include "src/backend/cpu/dnnl_product.h"

#include <cstring>
#include <dnnl.hpp>

#include "src/model/tensor_types.h"

namespace baton::backend::cpu {

struct DnnlProduct::Impl {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  dnnl::matmul matmul;
  dnnl::memory inputs;
  dnnl::memory weights;
  dnnl::memory outputs;
  std::vector<float> result;
};

DnnlProduct::DnnlProduct(DType dtype, uint32_t m, uint32_t n, uint32_t k,
                         const std::vector<float>& inputs, const std::vector<float>& weights)
    : impl_(new Impl) {
  using dnnl::memory;
  const auto type = dtype == DType::kF32 ? memory::data_type::f32 : memory::data_type::bf16;
  const memory::desc in({m, k}, type, {k, 1});
  const memory::desc any({k, n}, type, memory::format_tag::any);
  const memory::desc out({m, n}, memory::data_type::f32, {n, 1});
  const dnnl::matmul::primitive_desc plan(dnnl::matmul::desc(in, any, out), impl_->engine);
  const auto fill = [&](const memory& to, const std::vector<float>& values) {
    if (dtype == DType::kF32) {
      memcpy(to.get_data_handle(), values.data(), values.size() * sizeof(float));
      return;
    }
    auto* bits = static_cast<uint16_t*>(to.get_data_handle());
    for (size_t i = 0; i < values.size(); ++i) bits[i] = model::FloatToBf16(values[i]);
  };
  impl_->inputs = memory(in, impl_->engine);
  fill(impl_->inputs, inputs);
  // Ours lie as [n][k]; oneDNN packs them as it likes, as we do.
  memory plain(memory::desc({k, n}, type, {1, k}), impl_->engine);
  fill(plain, weights);
  impl_->weights = memory(plan.weights_desc(), impl_->engine);
  dnnl::reorder(plain, impl_->weights).execute(impl_->stream, plain, impl_->weights);
  impl_->stream.wait();
  impl_->result.resize(size_t{m} * n);
  impl_->outputs = memory(out, impl_->engine, impl_->result.data());
  impl_->matmul = dnnl::matmul(plan);
}

DnnlProduct::~DnnlProduct() { delete impl_; }

const std::vector<float>& DnnlProduct::Run() {
  impl_->matmul.execute(impl_->stream, {{DNNL_ARG_SRC, impl_->inputs},
                                        {DNNL_ARG_WEIGHTS, impl_->weights},
                                        {DNNL_ARG_DST, impl_->outputs}});
  impl_->stream.wait();
  return impl_->result;
}

}  // namespace baton::backend::cpu
