// Private to src/wire: the pieces from which every codec is put together. To() writes a value into
// a FlatBuffer, From() reads one back and reports what makes no sense. Pure; one thread per
// Builder or Reader.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "flatbuffers/flatbuffers.h"
#include "schemas/common_generated.h"
#include "src/base/ids.h"
#include "src/base/status.h"
#include "src/wire/messages.h"

namespace baton::wire::internal {

using Builder = flatbuffers::FlatBufferBuilder;
template <typename T>
using Offset = flatbuffers::Offset<T>;
template <typename T>
using Vector = flatbuffers::Vector<T>;

// Collects the first thing wrong with the meaning of a structurally valid message, and bounds what
// decoding it may allocate: FlatBuffers lets any number of references share one string, so that
// 4 MiB could otherwise unfold into terabytes. An honest encoder shares nothing, so honest payload
// never exceeds the message's own size.
class Reader {
 public:
  explicit Reader(size_t message_bytes) : bytes_left_(message_bytes) {}

  std::string Text(const flatbuffers::String* text);
  std::string Bytes(const Vector<uint8_t>* bytes);
  template <typename T>
  std::vector<T> Numbers(const Vector<T>* numbers) {
    if (numbers == nullptr || !Spend(numbers->size() * sizeof(T))) return {};
    return std::vector<T>(numbers->begin(), numbers->end());
  }
  // `name` is the field's, for the message.
  template <typename To, typename From>
  To Enum(From value, std::string_view name) {
    if (value > From::MAX) FailEnum(name, static_cast<unsigned>(value));
    return static_cast<To>(value);
  }
  // Takes `bytes` from what may still be unfolded; false, and a failure, when there is less.
  bool Spend(size_t bytes);
  // The first failure stays.
  void Fail(std::string what);
  // "meaning: ..." or OK.
  const Status& status() const { return status_; }
  bool ok() const { return status_.ok(); }

 private:
  void FailEnum(std::string_view name, unsigned value);

  size_t bytes_left_;
  Status status_;
};

// Empty values are not written: absent and empty mean the same everywhere.
Offset<flatbuffers::String> ToText(Builder& b, std::string_view text);
Offset<Vector<uint8_t>> ToBytes(Builder& b, std::string_view bytes);
template <typename T>
Offset<Vector<T>> ToNumbers(Builder& b, const std::vector<T>& numbers) {
  return numbers.empty() ? Offset<Vector<T>>() : b.CreateVector(numbers);
}

Offset<fb::Identity> To(Builder& b, const Identity& id);
Offset<fb::Layout> To(Builder& b, const Layout& layout);
Offset<fb::Handoff> To(Builder& b, const HandoffDescriptor& handoff);
Offset<fb::Logprobs> To(Builder& b, const std::vector<PositionLogprobs>& positions);
Offset<fb::Request> To(Builder& b, const Request& request);
Offset<fb::Address> To(Builder& b, const Address& address);
Offset<fb::ErrorInfo> To(Builder& b, const ErrorInfo& error);
Offset<fb::Timings> To(Builder& b, const Timings& timings);
Offset<fb::Output> To(Builder& b, const Output& output);
Offset<fb::Registration> To(Builder& b, const Registration& registration);

// Null is an error for what a message cannot do without and the default value for the rest.
Identity From(Reader& r, const fb::Identity* id);
Layout From(Reader& r, const fb::Layout* layout);
HandoffDescriptor From(Reader& r, const fb::Handoff* handoff);
std::vector<PositionLogprobs> From(Reader& r, const fb::Logprobs* positions);
Request From(Reader& r, const fb::Request* request);
Address From(Reader& r, const fb::Address* address);
ErrorInfo From(Reader& r, const fb::ErrorInfo* error);
Timings From(Reader& r, const fb::Timings* timings);
Output From(Reader& r, const fb::Output* output);
Registration From(Reader& r, const fb::Registration* registration);

template <typename Value>
auto ToOptional(Builder& b, const std::optional<Value>& value) {
  return value ? To(b, *value) : decltype(To(b, *value))();
}
template <typename Table>
auto FromOptional(Reader& r, const Table* table) -> std::optional<decltype(From(r, table))> {
  if (table == nullptr) return std::nullopt;
  return From(r, table);
}

}  // namespace baton::wire::internal
