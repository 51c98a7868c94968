// Text <-> tokens and the model's own chat template, through Hugging Face `tokenizers` and
// `minijinja` behind one small C interface (ffi/). Everything comes from the model's own file.
// Encode, Decode and ApplyChatTemplate are const and thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/result.h"

namespace baton::text {

// What a model file says about its vocabulary (GGUF's tokenizer.ggml.* keys).
struct TokenizerSpec {
  std::string kind;                  // tokenizer.ggml.model: "gpt2" is byte-level BPE
  std::string pre;                   // tokenizer.ggml.pre: "smollm", "llama-bpe", ...
  std::vector<std::string> tokens;   // by id, in the file's byte-level spelling
  std::vector<int32_t> token_types;  // 1 normal, 3 control, 4 user defined, 6 byte
  std::vector<std::string> merges;   // "left right", best first
  std::string chat_template;         // Jinja; empty when the model has none
  int32_t bos_id = -1;
  int32_t eos_id = -1;
  bool add_bos = false;
};

class Tokenizer {
 public:
  // kInvalidArgument names what the spec lacks or what is not supported, and the supported kinds.
  static Result<std::unique_ptr<Tokenizer>> Create(const TokenizerSpec& spec);
  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // `parse_special`: "<|im_start|>" in the text becomes its control token; otherwise it is spelled
  // out like any text, so that a user cannot forge a turn. kInvalidArgument when not UTF-8. Never
  // adds a bos token. A character for whose bytes the vocabulary has no token gives nothing, as in
  // the library (SmolLM2 lacks six control characters and planes 4 to 11).
  Result<std::vector<int32_t>> Encode(std::string_view text, bool parse_special) const;
  // A plain prompt: Encode without special tokens, behind the bos token where the spec asks for it.
  Result<std::vector<int32_t>> EncodePrompt(std::string_view text) const;
  // The bytes that the tokens stand for; may end inside a UTF-8 sequence. Control tokens give
  // nothing unless `keep_special`. Unknown ids are kInvalidArgument.
  Result<std::string> DecodeBytes(std::span<const int32_t> tokens, bool keep_special) const;
  // DecodeBytes with invalid UTF-8 replaced by U+FFFD, one for each maximal part of a sequence
  // (Unicode 15, 3.9, "substitution of maximal subparts").
  Result<std::string> Decode(std::span<const int32_t> tokens, bool keep_special) const;
  // `messages_json` is a JSON array of {"role", "content"}. The rendered prompt, to be encoded with
  // parse_special. kInvalidArgument with the template's own reason when it refuses, or when there
  // is no template.
  Result<std::string> ApplyChatTemplate(std::string_view messages_json,
                                        bool add_generation_prompt) const;
  // ApplyChatTemplate + Encode, with special tokens parsed in the template's text only and never in
  // a message's content. Asks for the assistant's turn (add_generation_prompt). No bos but the
  // template's own.
  Result<std::vector<int32_t>> EncodeChat(std::string_view messages_json) const;

  int32_t vocab_size() const;

 private:
  struct Impl;
  explicit Tokenizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Turns a growing token sequence into text piece by piece, never ending inside a UTF-8 sequence.
// One owner thread; the tokenizer must outlive it.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer* tokenizer) : tokenizer_(tokenizer) {}
  // The text that became certain with this token, maybe empty. Control tokens and ids beyond the
  // vocabulary (padding of the model's output) give nothing.
  std::string Push(int32_t token);
  // What is left: an unfinished sequence as U+FFFD.
  std::string Finish();

 private:
  const Tokenizer* tokenizer_;
  std::string pending_;  // bytes of an unfinished UTF-8 sequence, at most 3
};

}  // namespace baton::text
