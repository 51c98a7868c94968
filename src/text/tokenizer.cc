#include "src/text/tokenizer.h"

#include <utility>

#include "src/base/check.h"
#include "src/text/ffi/baton_text.h"
#include "src/text/token_bytes.h"
#include "src/text/utf8.h"

#if defined(__SANITIZE_THREAD__)
extern "C" {
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
}
#endif

namespace baton::text {
namespace {

// ThreadSanitizer sees the library's calls of memcpy and the like but not its locks, which are
// futexes in code that is not instrumented, and would report races that are none.
class UninstrumentedCall {
 public:
#if defined(__SANITIZE_THREAD__)
  UninstrumentedCall() {
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
  }
  ~UninstrumentedCall() {
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  }
#else
  UninstrumentedCall() {}
#endif
  UninstrumentedCall(const UninstrumentedCall&) = delete;
  UninstrumentedCall& operator=(const UninstrumentedCall&) = delete;
};

BatonTextSlice Slice(std::string_view text) { return {text.data(), text.size()}; }

std::vector<BatonTextSlice> Slices(const std::vector<std::string>& strings) {
  std::vector<BatonTextSlice> slices;
  slices.reserve(strings.size());
  for (const std::string& s : strings) slices.push_back(Slice(s));
  return slices;
}

std::string TakeBytes(BatonTextBytes bytes) {
  std::string text(bytes.data, bytes.size);
  baton_text_free_bytes(bytes);
  return text;
}

std::vector<int32_t> TakeIds(BatonTextIds ids) {
  std::vector<int32_t> tokens(ids.data, ids.data + ids.size);
  baton_text_free_ids(ids);
  return tokens;
}

// `call` gets (output, error) and its output goes through `take`.
template <typename Raw, typename Call, typename Take>
auto CallLibrary(Call call, Take take) -> Result<decltype(take(Raw{}))> {
  const UninstrumentedCall guard;
  Raw output{};
  BatonTextBytes error{};
  const BatonTextCode code = call(&output, &error);
  if (code == BATON_TEXT_OK) return take(output);
  std::string message = TakeBytes(error);
  if (code == BATON_TEXT_INVALID) return InvalidArgumentError(std::move(message));
  return InternalError("tokenizer library: " + message);
}

Status CheckSpec(const TokenizerSpec& spec) {
  if (spec.kind != "gpt2") {
    return InvalidArgumentError("tokenizer kind '" + spec.kind +
                                "' is not supported; supported is gpt2 (byte-level BPE)");
  }
  const auto size = static_cast<int64_t>(spec.tokens.size());
  for (const auto& [name, id] : {std::pair{"bos", spec.bos_id}, {"eos", spec.eos_id}}) {
    if (id >= size) {
      return InvalidArgumentError(std::string("tokenizer: ") + name + " id " + std::to_string(id) +
                                  " is outside the vocabulary of " + std::to_string(size));
    }
  }
  if (spec.add_bos && spec.bos_id < 0) {
    return InvalidArgumentError("tokenizer: prompts are to begin with bos but there is no bos id");
  }
  return OkStatus();
}

}  // namespace

struct Tokenizer::Impl {
  Impl(TokenBytes table, int32_t bos) : bytes(std::move(table)), bos_if_added(bos) {}
  ~Impl() { baton_text_free(library); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  const TokenBytes bytes;
  const int32_t bos_if_added;             // -1: prompts do not begin with one
  BatonTextTokenizer* library = nullptr;  // owned
};

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::~Tokenizer() = default;

Result<std::unique_ptr<Tokenizer>> Tokenizer::Create(const TokenizerSpec& spec) {
  BATON_RETURN_IF_ERROR(CheckSpec(spec));
  ASSIGN_OR_RETURN(TokenBytes bytes, TokenBytes::Create(spec.tokens, spec.token_types));
  auto impl = std::make_unique<Impl>(std::move(bytes), spec.add_bos ? spec.bos_id : -1);

  std::vector<int32_t> types = spec.token_types;
  types.resize(spec.tokens.size(), static_cast<int32_t>(TokenType::kNormal));
  const std::vector<BatonTextSlice> tokens = Slices(spec.tokens);
  const std::vector<BatonTextSlice> merges = Slices(spec.merges);
  const BatonTextSpec raw = {.tokens = tokens.data(),
                             .token_types = types.data(),
                             .token_count = tokens.size(),
                             .merges = merges.data(),
                             .merge_count = merges.size(),
                             .pre = Slice(spec.pre),
                             .chat_template = Slice(spec.chat_template),
                             .bos_id = spec.bos_id,
                             .eos_id = spec.eos_id};
  auto library = CallLibrary<BatonTextTokenizer*>(
      [&](auto* out, auto* error) { return baton_text_create(&raw, out, error); },
      [](BatonTextTokenizer* created) { return created; });
  if (!library.ok()) return library.status().WithContext("tokenizer");
  impl->library = *library;
  return std::unique_ptr<Tokenizer>(new Tokenizer(std::move(impl)));
}

Result<std::vector<int32_t>> Tokenizer::Encode(std::string_view text, bool parse_special) const {
  return CallLibrary<BatonTextIds>(
      [&](auto* out, auto* error) {
        return baton_text_encode(impl_->library, Slice(text), parse_special ? 1 : 0, out, error);
      },
      TakeIds);
}

Result<std::vector<int32_t>> Tokenizer::EncodePrompt(std::string_view text) const {
  ASSIGN_OR_RETURN(std::vector<int32_t> tokens, Encode(text, /*parse_special=*/false));
  if (impl_->bos_if_added >= 0) tokens.insert(tokens.begin(), impl_->bos_if_added);
  return tokens;
}

Result<std::string> Tokenizer::DecodeBytes(std::span<const int32_t> tokens,
                                           bool keep_special) const {
  std::string out;
  for (const int32_t id : tokens) {
    if (!impl_->bytes.Contains(id)) {
      return InvalidArgumentError("token " + std::to_string(id) + " is outside the vocabulary of " +
                                  std::to_string(vocab_size()));
    }
    if (keep_special || !impl_->bytes.IsSpecial(id)) out += impl_->bytes.Bytes(id);
  }
  return out;
}

Result<std::string> Tokenizer::Decode(std::span<const int32_t> tokens, bool keep_special) const {
  ASSIGN_OR_RETURN(const std::string bytes, DecodeBytes(tokens, keep_special));
  std::string text;
  AppendUtf8Lossy(bytes, /*last=*/true, &text);
  return text;
}

Result<std::string> Tokenizer::ApplyChatTemplate(std::string_view messages_json,
                                                 bool add_generation_prompt) const {
  return CallLibrary<BatonTextBytes>(
      [&](auto* out, auto* error) {
        return baton_text_render(impl_->library, Slice(messages_json),
                                 add_generation_prompt ? 1 : 0, out, error);
      },
      TakeBytes);
}

Result<std::vector<int32_t>> Tokenizer::EncodeChat(std::string_view messages_json) const {
  return CallLibrary<BatonTextIds>(
      [&](auto* out, auto* error) {
        return baton_text_encode_chat(impl_->library, Slice(messages_json), out, error);
      },
      TakeIds);
}

int32_t Tokenizer::vocab_size() const { return impl_->bytes.size(); }

}  // namespace baton::text
