#include "src/wire/open.h"

#include <fmt/format.h>

#include <cstring>

namespace baton::wire::internal {
namespace {

constexpr size_t kIdentifierAt = sizeof(flatbuffers::uoffset_t);
constexpr size_t kIdentifierBytes = 4;

}  // namespace

Status CheckSize(std::string_view bytes) {
  if (bytes.size() < kIdentifierAt + kIdentifierBytes) {
    return InvalidArgumentError(fmt::format("size: {} bytes are no message", bytes.size()));
  }
  if (bytes.size() > kMessageBytesMax) {
    return InvalidArgumentError(
        fmt::format("size: {} bytes, at most {} are allowed", bytes.size(), kMessageBytesMax));
  }
  return OkStatus();
}

std::string_view IdentifierOf(std::string_view bytes) {
  return bytes.substr(kIdentifierAt, kIdentifierBytes);
}

Status CheckIdentifier(std::string_view bytes, std::string_view expected) {
  const std::string_view found = IdentifierOf(bytes);
  if (found == expected) return OkStatus();
  std::string shown;
  for (const char c : found) {
    const bool printable = c > ' ' && c < 0x7f;
    shown += printable ? std::string(1, c) : fmt::format("\\x{:02x}", static_cast<uint8_t>(c));
  }
  return InvalidArgumentError(fmt::format("identifier: expected {}, found {}", expected, shown));
}

AlignedBytes::AlignedBytes(std::string_view bytes)
    : data_(reinterpret_cast<const uint8_t*>(bytes.data())) {
  constexpr size_t kUnit = sizeof(std::max_align_t);
  if (reinterpret_cast<uintptr_t>(data_) % alignof(std::max_align_t) == 0) return;
  copy_.resize((bytes.size() + kUnit - 1) / kUnit);
  std::memcpy(copy_.data(), bytes.data(), bytes.size());
  data_ = reinterpret_cast<const uint8_t*>(copy_.data());
}

}  // namespace baton::wire::internal
