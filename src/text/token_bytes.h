// The exact bytes of each token of a byte-level vocabulary. The tokenizer library decodes to text
// only, with unfinished UTF-8 replaced, so that the pieces of a character that spans two tokens
// are lost; this table keeps them. The library's decoder remains its check (tokenizer_test).
// Immutable once made: any number of threads may read.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/result.h"

namespace baton::text {

// GGUF's tokenizer.ggml.token_type.
enum class TokenType : int32_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

class TokenBytes {
 public:
  // `types` has one entry per token or none (all normal); kInvalidArgument otherwise.
  static Result<TokenBytes> Create(std::span<const std::string> tokens,
                                   std::span<const int32_t> types);

  int32_t size() const { return static_cast<int32_t>(is_special_.size()); }
  bool Contains(int32_t id) const { return id >= 0 && id < size(); }
  // Both CHECK Contains(id). Bytes live as long as the table.
  std::string_view Bytes(int32_t id) const;
  // Control and unknown tokens: they are no part of a text.
  bool IsSpecial(int32_t id) const;

 private:
  TokenBytes() = default;

  std::string bytes_;             // of all tokens, one after the other
  std::vector<size_t> ends_;      // by id, in bytes_
  std::vector<bool> is_special_;  // by id
};

}  // namespace baton::text
