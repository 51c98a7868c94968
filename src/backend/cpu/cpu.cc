#include "src/backend/cpu/cpu.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "src/backend/cpu/linear.h"

namespace baton::backend::cpu {
namespace {

// Tokens of one row that one unit of attention takes: they share the unpacked keys and values, and
// their state (16 tokens x 3 heads x 64 floats) fits the first cache.
constexpr uint32_t kAttentionTokens = 16;
// Steps of so few tokens do their small loops on the owner: a barrier costs more.
constexpr uint32_t kSerialTokens = 4;

struct Layer {
  std::vector<float> attn_norm;  // padded, as ffn_norm
  std::vector<float> ffn_norm;
  Packed qkv;
  Packed output;
  Packed gate_up;
  Packed down;
};

std::vector<float> PaddedRow(const model::Tensor& tensor) {
  std::vector<float> row(Padded(tensor.columns()));
  tensor.ReadRows(0, 1, row.data());
  return row;
}

// One (row, KV head, run of tokens) of a step.
struct AttentionUnit {
  uint32_t row = 0;
  uint32_t kv_head = 0;
  uint32_t first = 0;  // token within the row
  uint32_t count = 0;
};

class Compute : public HostCompute {
 public:
  Compute(const model::Model* model, const BackendOptions& options, const KvShape& shape, Buffer kv,
          const Kernels* kernels)
      : model_(*model),
        config_(model->config()),
        dtype_(options.dtype),
        shape_(shape),
        kv_(kv.data),
        kernels_(*kernels),
        pool_(options.threads),
        products_{kernels, &pool_},
        embedding_(model->Get("token_embd.weight")),
        output_norm_(PaddedRow(model->Get("output_norm.weight"))),
        head_(PackRows({&model::OutputHead(*model)})) {
    for (uint32_t i = 0; i < config_.layers; ++i) layers_.push_back(PackLayer(i));
    MakeFrequencies();
    MakeScratch(options.limits.tokens_max);
  }

  void Run(const FlatStep& step, float* logits) override {
    const auto tokens = static_cast<uint32_t>(step.tokens.size());
    PrepareRows(step);
    PlanAttention(step);
    for (const Layer& layer : layers_) {
      const auto index = static_cast<uint32_t>(&layer - layers_.data());
      NormRows(layer.attn_norm, tokens);
      products_.Store(normed_, layer.qkv, tokens, qkv_.As<float>(), qkv_stride_);
      RotateAndKeep(step, index);
      Attention(step, index);
      products_.Accumulate(attended_, layer.output, tokens, x_.As<float>(), x_stride_);
      NormRows(layer.ffn_norm, tokens);
      products_.SwiGlu(normed_, layer.gate_up, tokens, mlp_);
      products_.Accumulate(mlp_, layer.down, tokens, x_.As<float>(), x_stride_);
    }
    const auto outputs = static_cast<uint32_t>(step.outputs.size());
    if (outputs == 0) return;
    ForTokens(outputs, [&](uint32_t i) { NormRow(output_norm_, step.outputs[i], i); });
    products_.Store(normed_, head_, outputs, logits, config_.vocab);
  }

 private:
  Packed PackRows(std::initializer_list<const model::Tensor*> tensors) {
    return Packed::Rows({tensors.begin(), tensors.size()}, dtype_, &pool_);
  }

  Layer PackLayer(uint32_t i) {
    const auto get = [&](const char* part) -> const model::Tensor& {
      return model_.Get(model::LayerTensorName(i, part));
    };
    return {PaddedRow(get("attn_norm")),
            PaddedRow(get("ffn_norm")),
            PackRows({&get("attn_q"), &get("attn_k"), &get("attn_v")}),
            PackRows({&get("attn_output")}),
            Packed::GateUp(get("ffn_gate"), get("ffn_up"), dtype_, &pool_),
            PackRows({&get("ffn_down")})};
  }

  void MakeFrequencies() {
    const uint32_t pairs = config_.rope_dims / 2;
    frequency_.resize(pairs);
    std::vector<float> factors(pairs, 1.0F);
    if (const auto* tensor = model_.Find("rope_freqs.weight")) factors = tensor->ReadAll();
    for (uint32_t i = 0; i < pairs; ++i) {
      const double turn = std::pow(double{config_.rope_base}, -2.0 * i / config_.rope_dims);
      frequency_[i] = static_cast<float>(turn) / factors[i];
    }
  }

  void MakeScratch(uint32_t tokens) {
    const uint32_t q_width = config_.heads * config_.head_dim;
    x_stride_ = Padded(config_.hidden);
    x_ = Pages(tokens * x_stride_ * sizeof(float));
    qkv_stride_ = Padded(q_width + 2 * config_.kv_heads * config_.head_dim);
    qkv_ = Pages(tokens * qkv_stride_ * sizeof(float));
    normed_ = Activations(dtype_, tokens, config_.hidden);
    attended_ = Activations(dtype_, tokens, q_width);
    mlp_ = Activations(dtype_, tokens, config_.mlp);
    turns_ = Pages(size_t{tokens} * config_.rope_dims * sizeof(float));
    group_ = config_.heads / config_.kv_heads;
    scratch_floats_ = (AttentionScratch(kAttentionTokens, group_, config_.head_dim) + 15) / 16 * 16;
    scratch_ = Pages(pool_.threads() * scratch_floats_ * sizeof(float));
    token_row_.resize(tokens);
    units_.reserve(size_t{tokens} * config_.kv_heads);
  }

  template <typename Body>
  void ForTokens(uint32_t tokens, Body body) {
    if (tokens <= kSerialTokens) {
      for (uint32_t t = 0; t < tokens; ++t) body(t);
    } else {
      pool_.For(tokens, [&](uint32_t t, uint32_t) { body(t); });
    }
  }

  float* X(uint32_t token) const { return x_.As<float>() + token * x_stride_; }

  // Embeddings, angles, and which row each token belongs to.
  void PrepareRows(const FlatStep& step) {
    for (uint32_t r = 0; r < step.rows.size(); ++r) {
      const FlatRow& row = step.rows[r];
      std::fill_n(token_row_.begin() + row.first, row.count, r);
    }
    ForTokens(static_cast<uint32_t>(step.tokens.size()), [&](uint32_t t) {
      embedding_.ReadRows(static_cast<uint64_t>(step.tokens[t]), 1, X(t));
      const auto position = static_cast<float>(Position(step, t));
      float* turn = Turns(t);
      for (uint32_t i = 0; i < frequency_.size(); ++i) {
        turn[2 * i] = std::cos(position * frequency_[i]);
        turn[2 * i + 1] = std::sin(position * frequency_[i]);
      }
    });
  }

  uint32_t Position(const FlatStep& step, uint32_t token) const {
    const FlatRow& row = step.rows[token_row_[token]];
    return row.position + (token - row.first);
  }

  // Cosine and sine of each pair.
  float* Turns(uint32_t token) const {
    return turns_.As<float>() + size_t{token} * config_.rope_dims;
  }

  void PlanAttention(const FlatStep& step) {
    units_.clear();
    for (uint32_t r = 0; r < step.rows.size(); ++r) {
      for (uint32_t first = 0; first < step.rows[r].count; first += kAttentionTokens) {
        const uint32_t count = std::min(kAttentionTokens, step.rows[r].count - first);
        for (uint32_t head = 0; head < config_.kv_heads; ++head) {
          units_.push_back({.row = r, .kv_head = head, .first = first, .count = count});
        }
      }
    }
    // The last tokens of a prompt see most: longest first, so that threads end together.
    std::reverse(units_.begin(), units_.end());
  }

  void NormRow(const std::vector<float>& gain, uint32_t from, uint32_t to) {
    if (dtype_ == DType::kF32) {
      kernels_.rms_norm_f32(X(from), gain.data(), config_.hidden, config_.rms_eps,
                            reinterpret_cast<float*>(normed_.Row(to)));
    } else {
      kernels_.rms_norm_bf16(X(from), gain.data(), config_.hidden, config_.rms_eps,
                             reinterpret_cast<uint16_t*>(normed_.Row(to)));
    }
  }

  void NormRows(const std::vector<float>& gain, uint32_t tokens) {
    ForTokens(tokens, [&](uint32_t t) { NormRow(gain, t, t); });
  }

  static void Rotate(float* head, const float* turn, uint32_t dims) {
    for (uint32_t i = 0; i < dims; i += 2) {
      const float a = head[i];
      const float b = head[i + 1];
      head[i] = a * turn[i] - b * turn[i + 1];
      head[i + 1] = a * turn[i + 1] + b * turn[i];
    }
  }

  void RotateAndKeep(const FlatStep& step, uint32_t layer) {
    if (dtype_ == DType::kF32) {
      ForTokens(static_cast<uint32_t>(step.tokens.size()),
                [&](uint32_t t) { RotateToken<float>(step, layer, t); });
    } else {
      ForTokens(static_cast<uint32_t>(step.tokens.size()),
                [&](uint32_t t) { RotateToken<uint16_t>(step, layer, t); });
    }
  }

  // Rotates and scales the token's queries, rotates its keys, writes keys and values to the pool.
  template <typename T>
  void RotateToken(const FlatStep& step, uint32_t layer, uint32_t token) {
    const uint32_t dim = config_.head_dim;
    const float* turn = Turns(token);
    float* q = qkv_.As<float>() + token * qkv_stride_;
    float* k = q + size_t{config_.heads} * dim;
    float* v = k + size_t{config_.kv_heads} * dim;
    const float scale = 1.0F / std::sqrt(static_cast<float>(dim));
    for (uint32_t head = 0; head < config_.heads; ++head) {
      Rotate(q + head * dim, turn, config_.rope_dims);
      for (uint32_t d = 0; d < dim; ++d) q[head * dim + d] *= scale;
    }
    const uint32_t position = Position(step, token);
    const BlockId block = step.rows[token_row_[token]].blocks[position / shape_.block_tokens];
    const size_t inside = size_t{position % shape_.block_tokens} * dim;
    for (uint32_t head = 0; head < config_.kv_heads; ++head) {
      Rotate(k + head * dim, turn, config_.rope_dims);
      T* keys = Plane<T>(block, layer, 0, head) + inside;
      T* values = Plane<T>(block, layer, 1, head) + inside;
      for (uint32_t d = 0; d < dim; ++d) {
        Put(k[head * dim + d], keys + d);
        Put(v[head * dim + d], values + d);
      }
    }
  }

  static void Put(float value, float* to) { *to = value; }
  static void Put(float value, uint16_t* to) { *to = model::FloatToBf16(value); }

  // K (value 0) or V (1) of one head and layer in a block.
  template <typename T>
  T* Plane(BlockId block, uint32_t layer, uint32_t value, uint32_t head) const {
    return reinterpret_cast<T*>(kv_ + block.value * shape_.block_bytes() +
                                layer * shape_.layer_bytes() + value * shape_.plane_bytes() +
                                head * shape_.head_bytes());
  }

  void Attention(const FlatStep& step, uint32_t layer) {
    pool_.For(static_cast<uint32_t>(units_.size()), [&](uint32_t u, uint32_t thread) {
      if (dtype_ == DType::kF32) {
        kernels_.attend_f32(Task<float>(step, layer, units_[u], thread));
      } else {
        kernels_.attend_bf16(Task<uint16_t>(step, layer, units_[u], thread));
      }
    });
  }

  template <typename T>
  AttentionTask<T> Task(const FlatStep& step, uint32_t layer, const AttentionUnit& unit,
                        uint32_t thread) const {
    const FlatRow& row = step.rows[unit.row];
    const uint32_t token = row.first + unit.first;
    const size_t head = size_t{unit.kv_head} * group_ * config_.head_dim;
    return {.query = qkv_.As<float>() + token * qkv_stride_ + head,
            .query_stride = qkv_stride_,
            .out = reinterpret_cast<T*>(attended_.Row(token)) + head,
            .out_stride = attended_.stride,
            .tokens = unit.count,
            .position = row.position + unit.first,
            .group = group_,
            .dim = config_.head_dim,
            .keys = Plane<T>(BlockId(0), layer, 0, unit.kv_head),
            .values = Plane<T>(BlockId(0), layer, 1, unit.kv_head),
            .block_stride = shape_.block_bytes() / sizeof(T),
            .blocks = row.blocks,
            .block_tokens = shape_.block_tokens,
            .scratch = scratch_.As<float>() + thread * scratch_floats_};
  }

  const model::Model& model_;
  const model::Config config_;
  const DType dtype_;
  const KvShape shape_;
  std::byte* const kv_;
  const Kernels& kernels_;
  Pool pool_;
  const Products products_;

  const model::Tensor& embedding_;
  std::vector<float> frequency_;  // of each rotating pair
  const std::vector<float> output_norm_;
  const Packed head_;
  std::vector<Layer> layers_;

  // Scratch of a step, for limits.tokens_max tokens.
  uint32_t group_ = 1;
  size_t x_stride_ = 0;
  size_t qkv_stride_ = 0;
  Pages x_;      // f32 [token][x_stride_]: the residual stream
  Pages qkv_;    // f32 [token][qkv_stride_]
  Pages turns_;  // f32 [token][rope_dims]
  Activations normed_;
  Activations attended_;
  Activations mlp_;
  size_t scratch_floats_ = 0;
  Pages scratch_;  // f32 [thread][scratch_floats_]
  std::vector<uint32_t> token_row_;
  std::vector<AttentionUnit> units_;
};

}  // namespace

Result<std::unique_ptr<HostCompute>> MakeCompute(const model::Model* model,
                                                 const BackendOptions& options,
                                                 const KvShape& shape, Buffer kv,
                                                 const Kernels* kernels) {
  if (model->config().head_dim > kHeadDimMax) {
    return InvalidArgumentError(fmt::format("heads of {} dimensions, the cpu backend takes {}",
                                            model->config().head_dim, kHeadDimMax));
  }
  return std::unique_ptr<HostCompute>(
      std::make_unique<Compute>(model, options, shape, kv, kernels));
}

}  // namespace baton::backend::cpu
