// Private to src/wire: the way in for hostile bytes. Size, then identifier, then structure, then
// meaning; the first stage that refuses is named in the error. And the way out. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/result.h"
#include "src/wire/codec.h"
#include "src/wire/convert.h"

namespace baton::wire::internal {

// Tables nest five deep today; the room is for growth.
inline constexpr uint32_t kDepthMax = 16;
// Kinds that carry a hand-off (a table for each rank's endpoint) or a list of requests or headers.
inline constexpr uint32_t kTablesMany = 4096;
inline constexpr uint32_t kTablesFew = 64;

Status CheckSize(std::string_view bytes);
// `bytes` passed CheckSize.
std::string_view IdentifierOf(std::string_view bytes);
Status CheckIdentifier(std::string_view bytes, std::string_view expected);

// The bytes at an address that FlatBuffers may read scalars from: its Verifier (2.0.8) looks at the
// alignment of offsets only, never at the buffer's own, and Kafka payloads come at any address.
class AlignedBytes {
 public:
  explicit AlignedBytes(std::string_view bytes);
  const uint8_t* data() const { return data_; }

 private:
  std::vector<std::max_align_t> copy_;
  const uint8_t* data_;
};

template <typename Root>
auto Open(std::string_view bytes, std::string_view identifier, uint32_t tables_max)
    -> Result<decltype(From(std::declval<Reader&>(), std::declval<const Root*>()))> {
  BATON_RETURN_IF_ERROR(CheckSize(bytes));
  BATON_RETURN_IF_ERROR(CheckIdentifier(bytes, identifier));
  const AlignedBytes aligned(bytes);
  flatbuffers::Verifier verifier(aligned.data(), bytes.size(), kDepthMax, tables_max);
  if (!verifier.VerifyBuffer<Root>(nullptr)) {
    return InvalidArgumentError("verifier: not a well-formed " + std::string(identifier));
  }
  Reader reader(bytes.size());
  auto message = From(reader, flatbuffers::GetRoot<Root>(aligned.data()));
  BATON_RETURN_IF_ERROR(reader.status());
  return message;
}

template <typename Root>
std::string Close(Builder& b, Offset<Root> root, const char* identifier) {
  b.Finish(root, identifier);
  return std::string(reinterpret_cast<const char*>(b.GetBufferPointer()), b.GetSize());
}

}  // namespace baton::wire::internal
