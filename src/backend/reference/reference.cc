#include "src/backend/reference/reference.h"

#include <vector>

#include "src/backend/reference/ops.h"

namespace baton::backend::reference {
namespace {

using Floats = std::vector<float>;

struct Layer {
  Floats attn_norm, q, k, v, output, ffn_norm, gate, up, down;
};

class Compute : public HostCompute {
 public:
  Compute(const model::Model& model, const KvShape& shape, Buffer kv)
      : config_(model.config()), shape_(shape), kv_(reinterpret_cast<float*>(kv.data)) {
    Floats factors;
    if (const auto* tensor = model.Find("rope_freqs.weight")) factors = tensor->ReadAll();
    frequency_ = RopeFrequencies(config_.rope_base, config_.rope_dims, factors);
    embedding_ = model.Get("token_embd.weight").ReadAll();
    if (!config_.tied_output) head_ = model.Get("output.weight").ReadAll();
    output_norm_ = model.Get("output_norm.weight").ReadAll();
    for (uint32_t i = 0; i < config_.layers; ++i) {
      const auto read = [&](const char* part) {
        return model.Get(model::LayerTensorName(i, part)).ReadAll();
      };
      layers_.push_back({read("attn_norm"), read("attn_q"), read("attn_k"), read("attn_v"),
                         read("attn_output"), read("ffn_norm"), read("ffn_gate"), read("ffn_up"),
                         read("ffn_down")});
    }
  }

  void Run(const FlatStep& step, float* logits) override {
    const size_t count = step.tokens.size();
    const size_t hidden = config_.hidden;
    Floats x(count * hidden);
    for (size_t t = 0; t < count; ++t) {
      const auto* row = &embedding_[static_cast<size_t>(step.tokens[t]) * hidden];
      std::copy(row, row + hidden, &x[t * hidden]);
    }
    for (uint32_t i = 0; i < config_.layers; ++i) {
      AddAttention(i, step, &x);
      AddMlp(layers_[i], count, &x);
    }
    const Floats& head = config_.tied_output ? embedding_ : head_;
    Floats normed(hidden);
    for (size_t i = 0; i < step.outputs.size(); ++i) {
      RmsNorm({&x[step.outputs[i] * hidden], hidden}, output_norm_, config_.rms_eps, normed);
      MatMul(normed, head, 1, config_.vocab, hidden, {logits + i * config_.vocab, config_.vocab});
    }
  }

 private:
  // Position `position` of head `head` in layer `layer`; value: 0 for K, 1 for V.
  float* KvAt(const FlatRow& row, uint32_t layer, uint32_t value, uint32_t head,
              uint32_t position) const {
    const size_t block = row.blocks[position / shape_.block_tokens].value;
    size_t index = block * shape_.layers + layer;
    index = index * 2 + value;
    index = index * shape_.kv_heads + head;
    index = index * shape_.block_tokens + position % shape_.block_tokens;
    return kv_ + index * shape_.head_dim;
  }

  Floats NormRows(const Floats& x, const Floats& gain, size_t count) const {
    Floats out(x.size());
    const size_t hidden = config_.hidden;
    for (size_t t = 0; t < count; ++t) {
      RmsNorm({&x[t * hidden], hidden}, gain, config_.rms_eps, {&out[t * hidden], hidden});
    }
    return out;
  }

  void AddAttention(uint32_t index, const FlatStep& step, Floats* x) {
    const Layer& layer = layers_[index];
    const size_t count = step.tokens.size();
    const size_t dim = config_.head_dim;
    const size_t q_width = config_.heads * dim;
    const size_t kv_width = config_.kv_heads * dim;
    const Floats normed = NormRows(*x, layer.attn_norm, count);
    Floats q(count * q_width);
    Floats k(count * kv_width);
    Floats v(count * kv_width);
    MatMul(normed, layer.q, count, q_width, config_.hidden, q);
    MatMul(normed, layer.k, count, kv_width, config_.hidden, k);
    MatMul(normed, layer.v, count, kv_width, config_.hidden, v);
    for (const FlatRow& row : step.rows) {
      for (uint32_t i = 0; i < row.count; ++i) {
        const size_t t = row.first + i;
        StoreKv(index, row, row.position + i, {&k[t * kv_width], kv_width},
                {&v[t * kv_width], kv_width});
      }
    }
    Floats attended(count * q_width);
    for (const FlatRow& row : step.rows) {
      for (uint32_t i = 0; i < row.count; ++i) {
        const size_t t = row.first + i;
        AttendToken(index, row, row.position + i, {&q[t * q_width], q_width},
                    {&attended[t * q_width], q_width});
      }
    }
    Floats projected(count * config_.hidden);
    MatMul(attended, layer.output, count, config_.hidden, q_width, projected);
    for (size_t i = 0; i < projected.size(); ++i) (*x)[i] += projected[i];
  }

  void StoreKv(uint32_t layer, const FlatRow& row, uint32_t position, std::span<float> k,
               std::span<const float> v) {
    const size_t dim = config_.head_dim;
    for (uint32_t head = 0; head < config_.kv_heads; ++head) {
      const std::span<float> key = k.subspan(head * dim, dim);
      Rope(key, config_.rope_dims, position, frequency_);
      std::copy(key.begin(), key.end(), KvAt(row, layer, 0, head, position));
      std::copy(&v[head * dim], &v[head * dim] + dim, KvAt(row, layer, 1, head, position));
    }
  }

  void AttendToken(uint32_t layer, const FlatRow& row, uint32_t position, std::span<float> q,
                   std::span<float> out) {
    const size_t dim = config_.head_dim;
    const uint32_t group = config_.heads / config_.kv_heads;  // query heads that share a KV head
    std::vector<KeyValue> history(position + 1);
    for (uint32_t head = 0; head < config_.heads; ++head) {
      for (uint32_t p = 0; p <= position; ++p) {
        history[p] = {KvAt(row, layer, 0, head / group, p), KvAt(row, layer, 1, head / group, p)};
      }
      const std::span<float> query = q.subspan(head * dim, dim);
      Rope(query, config_.rope_dims, position, frequency_);
      Attend(query, history, out.subspan(head * dim, dim));
    }
  }

  void AddMlp(const Layer& layer, size_t count, Floats* x) const {
    const Floats normed = NormRows(*x, layer.ffn_norm, count);
    Floats gate(count * config_.mlp);
    Floats up(count * config_.mlp);
    MatMul(normed, layer.gate, count, config_.mlp, config_.hidden, gate);
    MatMul(normed, layer.up, count, config_.mlp, config_.hidden, up);
    SwiGlu(gate, up, gate);
    Floats down(count * config_.hidden);
    MatMul(gate, layer.down, count, config_.hidden, config_.mlp, down);
    for (size_t i = 0; i < down.size(); ++i) (*x)[i] += down[i];
  }

  const model::Config config_;
  const KvShape shape_;
  float* const kv_;
  Floats frequency_;
  Floats embedding_;
  Floats head_;  // empty when tied
  Floats output_norm_;
  std::vector<Layer> layers_;
};

}  // namespace

std::unique_ptr<HostCompute> MakeCompute(const model::Model& model, const KvShape& shape,
                                         Buffer kv) {
  return std::make_unique<Compute>(model, shape, kv);
}

}  // namespace baton::backend::reference
