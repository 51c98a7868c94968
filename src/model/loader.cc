#include "src/model/loader.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>

#include "src/model/gguf.h"
#include "src/model/mapped_file.h"

namespace baton::model {
namespace {

constexpr uint64_t kSizeMax = 1 << 24;

std::string HashOf(std::span<const std::byte> bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

// `fallback` when the key is absent.
Result<uint32_t> Size(const Gguf& file, const std::string& key, std::optional<uint32_t> fallback) {
  if (fallback.has_value() && file.Find(key) == nullptr) return *fallback;
  ASSIGN_OR_RETURN(const uint64_t value, file.Uint(key, kSizeMax));
  return static_cast<uint32_t>(value);
}

Result<int32_t> TokenId(const Gguf& file, const std::string& key, size_t vocab) {
  if (file.Find(key) == nullptr) return -1;
  ASSIGN_OR_RETURN(const uint64_t value, file.Uint(key, vocab - 1));
  return static_cast<int32_t>(value);
}

template <typename T>
Result<std::vector<T>> ArrayOf(const Gguf& file, const std::string& key, bool required) {
  const GgufValue* value = file.Find(key);
  if (value == nullptr && !required) return std::vector<T>{};
  if (value == nullptr) return InvalidArgumentError(fmt::format("{} lacks '{}'", file.name(), key));
  if (const auto* array = std::get_if<GgufArray>(value)) {
    if (const auto* items = std::get_if<std::vector<T>>(array)) return *items;
  }
  return InvalidArgumentError(fmt::format("{}: '{}' is no array of that kind", file.name(), key));
}

Result<text::TokenizerSpec> ReadTokenizer(const Gguf& file) {
  text::TokenizerSpec spec;
  ASSIGN_OR_RETURN(spec.kind, file.String("tokenizer.ggml.model"));
  if (file.Find("tokenizer.ggml.pre") != nullptr) {
    ASSIGN_OR_RETURN(spec.pre, file.String("tokenizer.ggml.pre"));
  }
  if (file.Find("tokenizer.chat_template") != nullptr) {
    ASSIGN_OR_RETURN(spec.chat_template, file.String("tokenizer.chat_template"));
  }
  ASSIGN_OR_RETURN(const auto tokens,
                   ArrayOf<std::string_view>(file, "tokenizer.ggml.tokens", true));
  if (tokens.empty()) {
    return InvalidArgumentError(fmt::format("{}: the vocabulary is empty", file.name()));
  }
  spec.tokens.assign(tokens.begin(), tokens.end());
  ASSIGN_OR_RETURN(const auto types, ArrayOf<int64_t>(file, "tokenizer.ggml.token_type", false));
  if (!types.empty() && types.size() != tokens.size()) {
    return InvalidArgumentError(
        fmt::format("{}: {} tokens but {} token types", file.name(), tokens.size(), types.size()));
  }
  for (const int64_t type : types) spec.token_types.push_back(static_cast<int32_t>(type));
  ASSIGN_OR_RETURN(const auto merges,
                   ArrayOf<std::string_view>(file, "tokenizer.ggml.merges", false));
  spec.merges.assign(merges.begin(), merges.end());
  ASSIGN_OR_RETURN(spec.bos_id, TokenId(file, "tokenizer.ggml.bos_token_id", tokens.size()));
  ASSIGN_OR_RETURN(spec.eos_id, TokenId(file, "tokenizer.ggml.eos_token_id", tokens.size()));
  if (const GgufValue* add = file.Find("tokenizer.ggml.add_bos_token")) {
    const bool* flag = std::get_if<bool>(add);
    spec.add_bos = flag != nullptr && *flag;
  }
  return spec;
}

Status ReadShape(const Gguf& file, size_t vocab, Config* c) {
  const std::string prefix = c->architecture + ".";
  ASSIGN_OR_RETURN(c->layers, Size(file, prefix + "block_count", {}));
  ASSIGN_OR_RETURN(c->hidden, Size(file, prefix + "embedding_length", {}));
  ASSIGN_OR_RETURN(c->mlp, Size(file, prefix + "feed_forward_length", {}));
  ASSIGN_OR_RETURN(c->context, Size(file, prefix + "context_length", {}));
  ASSIGN_OR_RETURN(c->heads, Size(file, prefix + "attention.head_count", {}));
  ASSIGN_OR_RETURN(c->kv_heads, Size(file, prefix + "attention.head_count_kv", c->heads));
  if (c->heads == 0) {
    return InvalidArgumentError(fmt::format("{}: the model has no heads", file.name()));
  }
  ASSIGN_OR_RETURN(c->head_dim, Size(file, prefix + "attention.key_length", c->hidden / c->heads));
  ASSIGN_OR_RETURN(const uint32_t value_length,
                   Size(file, prefix + "attention.value_length", c->head_dim));
  if (value_length != c->head_dim) {
    return InvalidArgumentError(fmt::format("{}: keys of {} and values of {} dimensions differ",
                                            file.name(), c->head_dim, value_length));
  }
  ASSIGN_OR_RETURN(c->rope_dims, Size(file, prefix + "rope.dimension_count", c->head_dim));
  ASSIGN_OR_RETURN(const double eps, file.Float(prefix + "attention.layer_norm_rms_epsilon"));
  c->rms_eps = static_cast<float>(eps);
  if (file.Find(prefix + "rope.freq_base") != nullptr) {
    ASSIGN_OR_RETURN(const double base, file.Float(prefix + "rope.freq_base"));
    c->rope_base = static_cast<float>(base);
  }
  const std::string scaling = prefix + "rope.scaling.type";
  if (file.Find(scaling) != nullptr) {
    ASSIGN_OR_RETURN(const std::string type, file.String(scaling));
    if (type != "none") {
      return InvalidArgumentError(
          fmt::format("{}: rope scaling '{}' is not supported", file.name(), type));
    }
  }
  c->vocab = static_cast<uint32_t>(std::min<size_t>(vocab, kSizeMax));
  c->tied_output = file.FindTensor("output.weight") == nullptr;
  return OkStatus();
}

// The end of an answer: the file's end token, and the marks that chat models end a turn with.
void FindEndIds(const text::TokenizerSpec& spec, Config* c) {
  c->bos_id = spec.bos_id;
  c->add_bos = spec.add_bos;
  c->end_id = spec.eos_id;
  if (spec.eos_id >= 0) c->end_ids.push_back(spec.eos_id);
  constexpr int32_t kControl = 3;
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    const std::string& token = spec.tokens[id];
    if (token != "<|im_end|>" && token != "<|eot_id|>" && token != "<|endoftext|>") continue;
    if (id >= spec.token_types.size() || spec.token_types[id] != kControl) continue;
    if (static_cast<int32_t>(id) != spec.eos_id) c->end_ids.push_back(static_cast<int32_t>(id));
  }
}

}  // namespace

Result<std::unique_ptr<Model>> LoadModel(const std::string& path) {
  ASSIGN_OR_RETURN(const std::shared_ptr<const MappedFile> mapped, MappedFile::Open(path));
  ASSIGN_OR_RETURN(const Gguf file, Gguf::Parse(mapped->bytes(), path));
  auto model = std::make_unique<Model>();
  Config& config = model->config();
  ASSIGN_OR_RETURN(config.architecture, file.String("general.architecture"));
  if (config.architecture != "llama") {
    return InvalidArgumentError(fmt::format("{}: architecture '{}' is not supported, 'llama' is",
                                            path, config.architecture));
  }
  config.name = path.substr(path.rfind('/') + 1);
  if (file.Find("general.name") != nullptr) {
    ASSIGN_OR_RETURN(config.name, file.String("general.name"));
  }
  ASSIGN_OR_RETURN(model->tokenizer(), ReadTokenizer(file));
  BATON_RETURN_IF_ERROR(ReadShape(file, model->tokenizer().tokens.size(), &config));
  FindEndIds(model->tokenizer(), &config);
  for (const GgufTensor& tensor : file.tensors()) {
    model->Set(std::string(tensor.name), Tensor::Stored(tensor.rows(), tensor.columns(),
                                                        tensor.type, tensor.data.data(), mapped));
  }
  const Status checked = CheckLlama(*model);
  if (!checked.ok()) return checked.WithContext(path);
  config.weights_hash = HashOf(mapped->bytes());
  return model;
}

}  // namespace baton::model
