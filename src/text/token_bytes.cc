#include "src/text/token_bytes.h"

#include <array>
#include <optional>

#include "src/base/check.h"

namespace baton::text {
namespace {

// Byte-level BPE (Radford et al., 2019) writes each byte as one printable character: printable
// bytes of Latin-1 as themselves, the other 68 as U+0100 and up in the order of their values.
constexpr bool IsPrintable(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr int kAlphabetEnd = 0x100 + 68;

std::array<int16_t, kAlphabetEnd> MakeAlphabet() {
  std::array<int16_t, kAlphabetEnd> byte_of{};
  byte_of.fill(-1);
  int next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    byte_of[IsPrintable(byte) ? byte : next++] = static_cast<int16_t>(byte);
  }
  return byte_of;
}

// The bytes of a token in byte-level spelling; nothing when it is not one. Its characters are all
// below U+0800, so one or two bytes each.
std::optional<std::string> FromByteLevel(std::string_view token) {
  static const std::array<int16_t, kAlphabetEnd> kByteOf = MakeAlphabet();
  std::string bytes;
  for (size_t i = 0; i < token.size(); ++i) {
    int code = static_cast<unsigned char>(token[i]);
    if (code >= 0xC2 && code < 0xE0 && i + 1 < token.size()) {
      code = (code & 0x1F) << 6 | (static_cast<unsigned char>(token[++i]) & 0x3F);
    } else if (code >= 0x80) {
      return std::nullopt;
    }
    if (code >= kAlphabetEnd || kByteOf[code] < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(kByteOf[code]));
  }
  return bytes;
}

// Only ordinary tokens have the byte-level spelling; the others are written as they are meant.
bool IsVerbatim(TokenType type) {
  return type == TokenType::kUnknown || type == TokenType::kControl ||
         type == TokenType::kUserDefined;
}

}  // namespace

Result<TokenBytes> TokenBytes::Create(std::span<const std::string> tokens,
                                      std::span<const int32_t> types) {
  if (!types.empty() && types.size() != tokens.size()) {
    return InvalidArgumentError("vocabulary: " + std::to_string(tokens.size()) + " tokens but " +
                                std::to_string(types.size()) + " token types");
  }
  TokenBytes table;
  table.ends_.reserve(tokens.size());
  table.is_special_.reserve(tokens.size());
  for (size_t id = 0; id < tokens.size(); ++id) {
    const auto type = types.empty() ? TokenType::kNormal : static_cast<TokenType>(types[id]);
    std::optional<std::string> bytes;
    if (!IsVerbatim(type)) bytes = FromByteLevel(tokens[id]);
    table.bytes_ += bytes ? *bytes : tokens[id];
    table.ends_.push_back(table.bytes_.size());
    table.is_special_.push_back(type == TokenType::kControl || type == TokenType::kUnknown);
  }
  return table;
}

std::string_view TokenBytes::Bytes(int32_t id) const {
  CHECK(Contains(id), std::to_string(id));
  const size_t begin = id == 0 ? 0 : ends_[id - 1];
  return std::string_view(bytes_).substr(begin, ends_[id] - begin);
}

bool TokenBytes::IsSpecial(int32_t id) const {
  CHECK(Contains(id), std::to_string(id));
  return is_special_[id];
}

}  // namespace baton::text
