#include "src/model/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "src/base/check.h"

namespace baton::model {
namespace {

// The finaliser of splitmix64 (Steele, Lea and Flood, 2014).
uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

uint64_t NameSeed(uint64_t seed, std::string_view name) {
  for (const char c : name) seed = Mix(seed ^ static_cast<uint8_t>(c));
  return seed;
}

Status CheckShape(const Model& model, const std::string& name, uint64_t rows, uint64_t columns) {
  const Tensor* tensor = model.Find(name);
  if (tensor == nullptr) {
    return InvalidArgumentError(
        fmt::format("model '{}' lacks tensor '{}'", model.config().name, name));
  }
  if (tensor->rows() != rows || tensor->columns() != columns) {
    return InvalidArgumentError(fmt::format("model '{}': tensor '{}' is {} x {}, expected {} x {}",
                                            model.config().name, name, tensor->rows(),
                                            tensor->columns(), rows, columns));
  }
  return OkStatus();
}

Status CheckConfig(const Config& c) {
  const auto bad = [&](std::string_view why) {
    return InvalidArgumentError(fmt::format("model '{}': {}", c.name, why));
  };
  constexpr uint32_t kMax = 1 << 24;
  for (const uint32_t size : {c.layers, c.hidden, c.heads, c.kv_heads, c.head_dim, c.mlp, c.vocab,
                              c.context, c.rope_dims}) {
    if (size == 0 || size > kMax) return bad("a size of its shape is 0 or above 2^24");
  }
  if (c.heads % c.kv_heads != 0) {
    return bad(fmt::format("{} heads are no multiple of {} KV heads", c.heads, c.kv_heads));
  }
  if (c.rope_dims > c.head_dim || c.rope_dims % 2 != 0) {
    return bad(fmt::format("{} rotating dimensions of {}", c.rope_dims, c.head_dim));
  }
  if (uint64_t{c.heads} * c.head_dim > kMax) return bad("its attention is wider than 2^24");
  if (!(c.rms_eps > 0) || !(c.rope_base > 0)) return bad("rms epsilon or rope base is not above 0");
  return OkStatus();
}

struct Part {
  const char* name;
  uint64_t rows;
  uint64_t columns;
};

std::vector<Part> LayerParts(const Config& c) {
  const uint64_t q = uint64_t{c.heads} * c.head_dim;
  const uint64_t kv = uint64_t{c.kv_heads} * c.head_dim;
  return {
      {"attn_norm", 1, c.hidden},    {"attn_q", q, c.hidden},      {"attn_k", kv, c.hidden},
      {"attn_v", kv, c.hidden},      {"attn_output", c.hidden, q}, {"ffn_norm", 1, c.hidden},
      {"ffn_gate", c.mlp, c.hidden}, {"ffn_up", c.mlp, c.hidden},  {"ffn_down", c.hidden, c.mlp}};
}

}  // namespace

Tensor Tensor::Stored(uint64_t rows, uint64_t columns, TensorType type, const std::byte* data,
                      std::shared_ptr<const void> keep) {
  CHECK(columns % InfoOf(type).block_values == 0);
  Tensor tensor(Kind::kStored, rows, columns);
  tensor.type_ = type;
  tensor.data_ = data;
  tensor.keep_ = std::move(keep);
  return tensor;
}

Tensor Tensor::Owned(uint64_t rows, uint64_t columns, std::vector<float> values) {
  CHECK(values.size() == rows * columns);
  Tensor tensor(Kind::kOwned, rows, columns);
  auto kept = std::make_shared<const std::vector<float>>(std::move(values));
  tensor.data_ = reinterpret_cast<const std::byte*>(kept->data());
  tensor.keep_ = std::move(kept);
  return tensor;
}

Tensor Tensor::Random(uint64_t rows, uint64_t columns, uint64_t seed, float center, float spread) {
  Tensor tensor(Kind::kRandom, rows, columns);
  tensor.seed_ = seed;
  tensor.center_ = center;
  tensor.spread_ = spread;
  return tensor;
}

void Tensor::ReadRows(uint64_t first, uint64_t count, float* out) const {
  CHECK(first <= rows_ && count <= rows_ - first);
  if (kind_ == Kind::kRandom) {
    for (uint64_t i = 0; i < count * columns_; ++i) {
      const uint64_t bits = Mix(seed_ + first * columns_ + i) >> 40;  // 24 bits: exact in f32
      out[i] = center_ + spread_ * (static_cast<float>(bits) * 0x1p-23F - 1.0F);
    }
    return;
  }
  const TypeInfo& info = InfoOf(type_);
  const uint64_t row_bytes = columns_ / info.block_values * info.block_bytes;
  Dequantize(type_, data_ + first * row_bytes, count * columns_, out);
}

std::vector<float> Tensor::ReadAll() const {
  std::vector<float> values(rows_ * columns_);
  ReadRows(0, rows_, values.data());
  return values;
}

const Tensor* Model::Find(std::string_view name) const {
  const auto it = tensors_.find(name);
  return it == tensors_.end() ? nullptr : &it->second;
}

const Tensor& Model::Get(std::string_view name) const {
  const Tensor* tensor = Find(name);
  CHECK(tensor != nullptr, std::string(name));
  return *tensor;
}

void Model::Set(std::string name, Tensor tensor) {
  tensors_.insert_or_assign(std::move(name), std::move(tensor));
}

std::string LayerTensorName(uint32_t layer, std::string_view part) {
  return fmt::format("blk.{}.{}.weight", layer, part);
}

const Tensor& OutputHead(const Model& model) {
  return model.Get(model.config().tied_output ? "token_embd.weight" : "output.weight");
}

Status CheckLlama(const Model& model) {
  const Config& c = model.config();
  BATON_RETURN_IF_ERROR(CheckConfig(c));
  BATON_RETURN_IF_ERROR(CheckShape(model, "token_embd.weight", c.vocab, c.hidden));
  BATON_RETURN_IF_ERROR(CheckShape(model, "output_norm.weight", 1, c.hidden));
  if (!c.tied_output) BATON_RETURN_IF_ERROR(CheckShape(model, "output.weight", c.vocab, c.hidden));
  if (model.Find("rope_freqs.weight") != nullptr) {
    BATON_RETURN_IF_ERROR(CheckShape(model, "rope_freqs.weight", 1, c.rope_dims / 2));
  }
  for (uint32_t layer = 0; layer < c.layers; ++layer) {
    for (const Part& part : LayerParts(c)) {
      BATON_RETURN_IF_ERROR(
          CheckShape(model, LayerTensorName(layer, part.name), part.rows, part.columns));
    }
  }
  return OkStatus();
}

Result<std::unique_ptr<Model>> MakeDummy(const Config& config, uint64_t seed) {
  BATON_RETURN_IF_ERROR(CheckConfig(config));
  auto model = std::make_unique<Model>();
  model->config() = config;
  if (config.weights_hash.empty())
    model->config().weights_hash = fmt::format("dummy-{:016x}", seed);
  const auto add = [&](std::string name, uint64_t rows, uint64_t columns) {
    // Norm gains around 1; matrices with variance 1 / columns, so that activations keep their size.
    const bool gain = rows == 1;
    const float spread = gain ? 0.25F : std::sqrt(3.0F / static_cast<float>(columns));
    const uint64_t tensor_seed = NameSeed(seed, name);
    model->Set(std::move(name),
               Tensor::Random(rows, columns, tensor_seed, gain ? 1.0F : 0.0F, spread));
  };
  add("token_embd.weight", config.vocab, config.hidden);
  add("output_norm.weight", 1, config.hidden);
  if (!config.tied_output) add("output.weight", config.vocab, config.hidden);
  for (uint32_t layer = 0; layer < config.layers; ++layer) {
    for (const Part& part : LayerParts(config)) {
      add(LayerTensorName(layer, part.name), part.rows, part.columns);
    }
  }
  return model;
}

}  // namespace baton::model
