#include "src/backend/factory.h"

#include <fmt/format.h>

#include "src/backend/cpu/cpu.h"
#include "src/backend/host/host_backend.h"
#include "src/backend/reference/reference.h"

namespace baton::backend {
namespace {

constexpr uint32_t kBlockTokensMax = 256;
constexpr uint32_t kThreadsMax = 256;
constexpr uint32_t kStepMax = 1 << 16;
constexpr uintptr_t kAlignment = 64;

Status CheckOptions(const BackendOptions& options, const KvShape& shape, const Buffer& memory) {
  if (options.block_tokens == 0 || options.block_tokens > kBlockTokensMax) {
    return InvalidArgumentError(fmt::format("blocks of {} tokens, 1 to {} are possible",
                                            options.block_tokens, kBlockTokensMax));
  }
  if (options.threads == 0 || options.threads > kThreadsMax) {
    return InvalidArgumentError(
        fmt::format("{} threads, 1 to {} are possible", options.threads, kThreadsMax));
  }
  const Limits& limits = options.limits;
  if (limits.rows_max == 0 || limits.rows_max > limits.tokens_max || limits.tokens_max > kStepMax) {
    return InvalidArgumentError(fmt::format("{} rows and {} tokens in a step: rows <= tokens <= {}",
                                            limits.rows_max, limits.tokens_max, kStepMax));
  }
  if (memory.space != Space::kHost || memory.bytes < shape.pool_bytes() ||
      reinterpret_cast<uintptr_t>(memory.data) % kAlignment != 0) {
    return InvalidArgumentError(
        fmt::format("the KV pool needs {} bytes of host memory aligned to {}, {} were given",
                    shape.pool_bytes(), kAlignment, memory.bytes));
  }
  if (options.kv_blocks == 0) return InvalidArgumentError("the KV pool has no blocks");
  return OkStatus();
}

}  // namespace

KvShape ShapeFor(const model::Config& config, const BackendOptions& options) {
  return {.blocks = options.kv_blocks,
          .layers = config.layers,
          .kv_heads = config.kv_heads,
          .block_tokens = options.block_tokens,
          .head_dim = config.head_dim,
          .dtype = options.dtype};
}

Result<std::unique_ptr<Backend>> MakeBackend(const std::string& name, const model::Model* model,
                                             const BackendOptions& options, Buffer kv_memory) {
  BATON_RETURN_IF_ERROR(model::CheckLlama(*model));
  const KvShape shape = ShapeFor(model->config(), options);
  BATON_RETURN_IF_ERROR(CheckOptions(options, shape, kv_memory));
  std::unique_ptr<HostCompute> compute;
  if (name == "reference") {
    if (options.dtype != DType::kF32) {
      return InvalidArgumentError("the reference backend computes in f32 only");
    }
    compute = reference::MakeCompute(*model, shape, kv_memory);
  } else if (name == "cpu") {
    ASSIGN_OR_RETURN(compute, cpu::MakeCompute(model, options, shape, kv_memory,
                                               cpu::SupportedKernels().front()));
  } else {
    return InvalidArgumentError(
        fmt::format("backend '{}' does not exist; there are reference and cpu", name));
  }
  return std::unique_ptr<Backend>(std::make_unique<HostBackend>(
      model->config(), shape, kv_memory, options.limits, std::move(compute)));
}

}  // namespace baton::backend
