#include "src/text/utf8.h"

namespace baton::text {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// What may follow a first byte: Unicode 15, table 3-7.
struct Lead {
  int length = 0;  // 0: no sequence begins so
  unsigned char second_min = 0x80;
  unsigned char second_max = 0xBF;
};

Lead LeadOf(unsigned char byte) {
  if (byte < 0x80) return {1};
  if (byte < 0xC2) return {0};
  if (byte < 0xE0) return {2};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0};
}

// How many bytes at `at` agree with a sequence that starts there: at least 1.
size_t AgreeingBytes(std::string_view bytes, size_t at, const Lead& lead) {
  size_t count = 1;
  while (count < static_cast<size_t>(lead.length) && at + count < bytes.size()) {
    const auto byte = static_cast<unsigned char>(bytes[at + count]);
    const unsigned char min = count == 1 ? lead.second_min : 0x80;
    const unsigned char max = count == 1 ? lead.second_max : 0xBF;
    if (byte < min || byte > max) break;
    ++count;
  }
  return count;
}

}  // namespace

size_t AppendUtf8Lossy(std::string_view bytes, bool last, std::string* out) {
  size_t at = 0;
  while (at < bytes.size()) {
    const Lead lead = LeadOf(static_cast<unsigned char>(bytes[at]));
    const size_t agreeing = AgreeingBytes(bytes, at, lead);
    if (agreeing == static_cast<size_t>(lead.length)) {
      out->append(bytes, at, agreeing);
    } else if (!last && lead.length != 0 && at + agreeing == bytes.size()) {
      return at;
    } else {
      out->append(kReplacement);
    }
    at += agreeing;
  }
  return at;
}

}  // namespace baton::text
