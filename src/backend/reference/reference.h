// The oracle: a Llama computed with reference/ops.h, one token after the other, in f32.
#pragma once

#include <memory>

#include "src/backend/host/host_backend.h"
#include "src/model/model.h"

namespace baton::backend::reference {

// `model` has passed CheckLlama; `shape` is f32 and `kv` holds its pool. Copies every weight as
// f32.
std::unique_ptr<HostCompute> MakeCompute(const model::Model& model, const KvShape& shape,
                                         Buffer kv);

}  // namespace baton::backend::reference
