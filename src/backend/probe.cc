#include "src/backend/probe.h"

#include <algorithm>

namespace baton::backend {

Result<std::vector<float>> ProbeLogits(Backend& backend, std::span<const int32_t> tokens,
                                       uint32_t chunk) {
  auto* probe = dynamic_cast<LogitsProbe*>(&backend);
  if (probe == nullptr) return FailedPreconditionError("this backend does not show its logits");
  const uint32_t most = backend.limits().tokens_max;
  const size_t step = chunk == 0 ? most : std::min(chunk, most);
  const uint32_t block_tokens = backend.kv_shape().block_tokens;
  std::vector<float> all;
  for (size_t first = 0; first < tokens.size(); first += step) {
    const size_t count = std::min(step, tokens.size() - first);
    StepRow row;
    row.position = static_cast<uint32_t>(first);
    row.tokens.assign(tokens.begin() + first, tokens.begin() + first + count);
    const size_t blocks = (first + count + block_tokens - 1) / block_tokens;
    for (uint32_t block = 0; block < blocks; ++block) row.blocks.emplace_back(block);
    ASSIGN_OR_RETURN(const std::vector<float> some, probe->Logits({&row, 1}));
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

}  // namespace baton::backend
