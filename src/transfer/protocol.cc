#include "src/transfer/protocol.h"

#include <algorithm>
#include <type_traits>

#include "src/base/check.h"
#include "src/transfer/layout.h"

namespace baton::transfer {
namespace {

constexpr char kMagic = 'K';

// Writer and Reader have the same members, so that one function per message describes its fields
// once for both directions.
class Writer {
 public:
  static constexpr bool kReads = false;
  template <typename T>
  void Int(const T& value) {
    using U = std::make_unsigned_t<T>;
    for (size_t i = 0; i < sizeof(T); ++i) {
      out_.push_back(static_cast<char>(static_cast<U>(value) >> (8 * i)));
    }
  }
  void Text(const std::string& text, size_t bytes_max) {
    CHECK(text.size() <= bytes_max, text);
    Int(static_cast<uint16_t>(text.size()));
    out_ += text;
  }
  void List(const std::vector<uint32_t>& list, size_t size_max) {
    CHECK(list.size() <= size_max);
    Int(static_cast<uint16_t>(list.size()));
    for (const uint32_t entry : list) Int(entry);
  }
  std::string Take() { return std::move(out_); }

 private:
  std::string out_;
};

class Reader {
 public:
  static constexpr bool kReads = true;
  explicit Reader(std::string_view bytes) : rest_(bytes) {}
  template <typename T>
  void Int(T& value) {
    using U = std::make_unsigned_t<T>;
    if (rest_.size() < sizeof(T)) {
      ok_ = false;
      return;
    }
    U got = 0;
    for (size_t i = 0; i < sizeof(T); ++i) {
      got = static_cast<U>(got | static_cast<U>(static_cast<uint8_t>(rest_[i])) << (8 * i));
    }
    value = static_cast<T>(got);
    rest_.remove_prefix(sizeof(T));
  }
  void Text(std::string& text, size_t bytes_max) {
    uint16_t size = 0;
    Int(size);
    if (!ok_ || size > bytes_max || size > rest_.size()) {
      ok_ = false;
      return;
    }
    text.assign(rest_.substr(0, size));
    rest_.remove_prefix(size);
  }
  void List(std::vector<uint32_t>& list, size_t size_max) {
    uint16_t size = 0;
    Int(size);
    if (!ok_ || size > size_max || size * sizeof(uint32_t) > rest_.size()) {
      ok_ = false;
      return;
    }
    list.resize(size);
    for (uint32_t& entry : list) Int(entry);
  }
  bool ok() const { return ok_; }
  bool finished() const { return ok_ && rest_.empty(); }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

template <typename Coder, typename Layout>
void CodeLayout(Coder& coder, Layout& layout) {
  coder.Int(layout.tp);
  coder.Int(layout.pp);
  coder.List(layout.layers_per_stage, kStagesMax);
  coder.Int(layout.layers);
  coder.Int(layout.heads);
  coder.Int(layout.kv_heads);
  coder.Int(layout.head_dim);
  coder.Int(layout.block_tokens);
  coder.Text(layout.kv_dtype, kLayoutTextBytesMax);
  coder.Text(layout.weights_hash, kLayoutTextBytesMax);
  coder.Text(layout.rope, kLayoutTextBytesMax);
}

template <typename Coder, typename M>
void CodeFields(Coder& coder, M& m) {
  coder.Int(m.owner_epoch);
  coder.Int(m.owner_rank);
  if (m.kind == Kind::kHello) {
    coder.Text(m.instance, kNameBytesMax);
    coder.Int(m.bytes);
    return;
  }
  coder.Int(m.lease);
  coder.Int(m.fetch);
  coder.Int(m.receiver_rank);
  if (m.kind == Kind::kAsk || m.kind == Kind::kAbort) {
    coder.Text(m.instance, kNameBytesMax);
    coder.Int(m.attempt);
    coder.Text(m.receiver, kReceiverBytesMax);
  }
  if (m.kind == Kind::kAsk) {
    CodeLayout(coder, m.layout);
    coder.Int(m.blocks);
    coder.Int(m.skip_blocks);
  }
  if (m.kind == Kind::kRefuse) {
    if constexpr (Coder::kReads) {
      uint8_t code = 0;
      coder.Int(code);
      m.code = static_cast<RefuseCode>(code);
    } else {
      coder.Int(static_cast<uint8_t>(m.code));
    }
  }
  if (m.kind == Kind::kRefuse || m.kind == Kind::kAbort || m.kind == Kind::kStale) {
    coder.Text(m.reason, kReasonBytesMax);
  }
  if (m.kind == Kind::kFetch || m.kind == Kind::kDone || m.kind == Kind::kData) coder.Int(m.bytes);
  if (m.kind == Kind::kGrant) coder.Int(m.timeout_ns);
  if (m.kind == Kind::kData) coder.Int(m.crc);
}

bool KnownCode(RefuseCode code) {
  return code >= RefuseCode::kTaken && code <= RefuseCode::kMismatch;
}

}  // namespace

std::string EncodeMessage(const Message& message) {
  Writer writer;
  writer.Int(static_cast<uint8_t>(kMagic));
  writer.Int(kProtocolVersion);
  writer.Int(static_cast<uint8_t>(message.kind));
  if (message.reason.size() > kReasonBytesMax) {
    Message cut = message;
    cut.reason.resize(kReasonBytesMax);
    CodeFields(writer, cut);
  } else {
    CodeFields(writer, message);
  }
  std::string bytes = writer.Take();
  CHECK(bytes.size() <= kProtocolBytesMax);
  return bytes;
}

Result<Message> DecodeMessage(std::string_view bytes) {
  if (bytes.size() > kProtocolBytesMax) {
    return InvalidArgumentError("transfer message of " + std::to_string(bytes.size()) +
                                " bytes, at most " + std::to_string(kProtocolBytesMax));
  }
  Reader reader(bytes);
  uint8_t magic = 0;
  uint8_t version = 0;
  uint8_t kind = 0;
  reader.Int(magic);
  reader.Int(version);
  reader.Int(kind);
  if (!reader.ok() || magic != static_cast<uint8_t>(kMagic)) {
    return InvalidArgumentError("not a transfer message");
  }
  if (version != kProtocolVersion) {
    return InvalidArgumentError("transfer protocol version " + std::to_string(version) +
                                ", this side speaks " + std::to_string(kProtocolVersion));
  }
  if (kind < static_cast<uint8_t>(Kind::kAsk) || kind > static_cast<uint8_t>(Kind::kHello)) {
    return InvalidArgumentError("transfer message of unknown kind " + std::to_string(kind));
  }
  Message message;
  message.kind = static_cast<Kind>(kind);
  CodeFields(reader, message);
  if (!reader.finished()) {
    return InvalidArgumentError("transfer message of kind " + std::to_string(kind) +
                                " is cut or too long");
  }
  if (message.kind == Kind::kRefuse && !KnownCode(message.code)) {
    return InvalidArgumentError("refusal with unknown code");
  }
  if (message.kind == Kind::kAsk &&
      (message.blocks > kHandoffBlocksMax || message.skip_blocks > message.blocks)) {
    return InvalidArgumentError("ask with " + std::to_string(message.skip_blocks) + " of " +
                                std::to_string(message.blocks) + " blocks skipped");
  }
  return message;
}

std::string_view RefuseCodeName(RefuseCode code) {
  switch (code) {
    case RefuseCode::kTaken:
      return "taken";
    case RefuseCode::kEnded:
      return "ended";
    case RefuseCode::kExpired:
      return "expired";
    case RefuseCode::kStaleEpoch:
      return "stale epoch";
    case RefuseCode::kMismatch:
      return "mismatch";
  }
  return "unknown";
}

}  // namespace baton::transfer
