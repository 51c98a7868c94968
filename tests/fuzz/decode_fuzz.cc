// Any bytes into one decoder (FUZZ_DECODE names it). It must neither crash nor read past the end;
// what it accepts must be a fixed point: encoded and decoded again it is the same message.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>

#include "src/base/check.h"
#include "src/wire/codec.h"

namespace baton::wire {
namespace {

template <typename Message>
std::string EncodeAny(const Message& message) {
  if constexpr (std::is_same_v<Message, LedgerRecord>) {
    return std::visit([](const auto& kind) { return Encode(kind); }, message);
  } else {
    return Encode(message);
  }
}

template <typename Message>
void CheckMeaning(const Message& message) {
  if constexpr (std::is_same_v<Message, Request>) {
    // Any verdict is fine; it must come.
    IgnoreStatus(ValidateRequest(message));
    CHECK(ContentHash(message) == ContentHash(message));
  }
}

void DecodeOne(std::string_view bytes) {
  const auto message = FUZZ_DECODE(bytes);
  if (!message.ok()) return;
  CheckMeaning(*message);
  const std::string encoded = EncodeAny(*message);
  // Tables that the input shares are written out one by one.
  if (encoded.size() > kMessageBytesMax) return;
  const auto again = FUZZ_DECODE(encoded);
  CHECK_OK(again.status());
  // As bytes, since a NaN does not equal itself.
  CHECK(EncodeAny(*again) == encoded);
}

}  // namespace
}  // namespace baton::wire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  baton::wire::DecodeOne(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
