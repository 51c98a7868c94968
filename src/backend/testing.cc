#include "src/backend/testing.h"

#include <algorithm>
#include <cstring>

#include "src/base/check.h"

namespace baton::backend {

TestBackend::TestBackend(const std::string& name, const model::Model* model,
                         const BackendOptions& options) {
  const size_t bytes = (ShapeFor(model->config(), options).pool_bytes() + 63) / 64 * 64;
  memory_.reset(static_cast<std::byte*>(std::aligned_alloc(64, bytes)));
  CHECK(memory_ != nullptr);
  memset(memory_.get(), 0, bytes);
  auto made = MakeBackend(name, model, options, {Space::kHost, memory_.get(), bytes});
  CHECK(made.ok(), made.status().ToString());
  backend_ = std::move(made).value();
}

StepOutput TestBackend::Step(StepInput step) {
  step.step = ++step_;
  auto ticket = backend_->Submit(step);
  CHECK(ticket.ok(), ticket.status().ToString());
  auto output = backend_->Poll(*ticket);
  CHECK(output.ok(), output.status().ToString());
  CHECK(output->has_value());
  return std::move(**output);
}

std::vector<int32_t> TestBackend::Greedy(std::span<const int32_t> tokens, uint32_t count,
                                         std::span<const BlockId> blocks, uint32_t chunk) {
  const AdmissionId admission(admission_++);
  backend_->OpenSequence({.admission = admission, .sampling = {}, .history = {}, .logprobs = {}});
  const size_t most = chunk == 0 ? backend_->limits().tokens_max : chunk;
  StepRow row{.admission = admission, .blocks = {blocks.begin(), blocks.end()}};
  std::vector<int32_t> drawn;
  for (size_t first = 0; first < tokens.size(); first += most) {
    const size_t end = std::min(tokens.size(), first + most);
    row.position = static_cast<uint32_t>(first);
    row.tokens.assign(tokens.begin() + first, tokens.begin() + end);
    row.sample = end == tokens.size();
    const StepOutput output = Step({.rows = {row}});
    if (row.sample) drawn.push_back(output.rows[0].token);
  }
  while (drawn.size() < count) {
    row.position = static_cast<uint32_t>(tokens.size() + drawn.size() - 1);
    row.tokens = {drawn.back()};
    drawn.push_back(Step({.rows = {row}}).rows[0].token);
  }
  backend_->CloseSequence(admission);
  return drawn;
}

std::vector<BlockId> BlocksFor(uint32_t tokens, uint32_t block_tokens, uint32_t first) {
  std::vector<BlockId> blocks;
  for (uint32_t i = 0; i * block_tokens < tokens; ++i) blocks.emplace_back(first + i);
  return blocks;
}

model::Config OddConfig() {
  model::Config config;
  config.name = "odd";
  config.layers = 3;
  config.hidden = 42;
  config.heads = 9;
  config.kv_heads = 3;
  config.head_dim = 10;
  config.rope_dims = 6;
  config.mlp = 101;
  config.vocab = 203;
  config.context = 256;
  return config;
}

}  // namespace baton::backend
