// A Llama on the processor's vector units: f32 or bf16 weights, activations and KV; sums in f32.
#pragma once

#include <memory>

#include "src/backend/cpu/kernels.h"
#include "src/backend/host/host_backend.h"
#include "src/model/model.h"

namespace baton::backend::cpu {

// `model` has passed CheckLlama and outlives the result, as `kv` does (the pool of ShapeFor).
// `kernels` is one of SupportedKernels(). kInvalidArgument for a head wider than kHeadDimMax.
Result<std::unique_ptr<HostCompute>> MakeCompute(const model::Model* model,
                                                 const BackendOptions& options,
                                                 const KvShape& shape, Buffer kv,
                                                 const Kernels* kernels);

}  // namespace baton::backend::cpu
