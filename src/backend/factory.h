// Makes backends by name: "reference" (f32 only, the oracle) and "cpu" (f32, bf16).
#pragma once

#include <memory>
#include <string>

#include "src/backend/backend.h"
#include "src/model/model.h"

namespace baton::backend {

// The pool that a backend with these options wants, before there is memory for it.
KvShape ShapeFor(const model::Config& config, const BackendOptions& options);

// `model` and `kv_memory` (host space, at least ShapeFor(...).pool_bytes(), zero-filled, aligned to
// 64 bytes) outlive the backend. kInvalidArgument for an unknown name, options out of range, a
// model that is not whole, or memory that is too small.
Result<std::unique_ptr<Backend>> MakeBackend(const std::string& name, const model::Model* model,
                                             const BackendOptions& options, Buffer kv_memory);

}  // namespace baton::backend
