#include "src/text/testing.h"

namespace baton::text {
namespace {

std::string Utf8(uint32_t code) {
  const auto tail = [&](int shift) { return static_cast<char>(0x80 | (code >> shift & 0x3F)); };
  if (code < 0x80) return {static_cast<char>(code)};
  if (code < 0x800) return {static_cast<char>(0xC0 | code >> 6), tail(0)};
  if (code < 0x10000) return {static_cast<char>(0xE0 | code >> 12), tail(6), tail(0)};
  return {static_cast<char>(0xF0 | code >> 18), tail(12), tail(6), tail(0)};
}

}  // namespace

TokenizerSpec SmallSpec() {
  TokenizerSpec spec;
  spec.kind = "gpt2";
  spec.pre = "smollm";
  const auto add = [&](std::string token, int32_t type) {
    spec.tokens.push_back(std::move(token));
    spec.token_types.push_back(type);
  };
  add("<|end|>", 3);
  add("<|start|>", 3);
  add("<|stop", 3);
  add("<tool>", 4);
  uint32_t next = 0x100;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
    add(Utf8(printable ? byte : next++), 1);
  }
  spec.merges = {"\u0120 t", "h e", "\u0120t he", "\u00C3 \u00A9", "l l"};
  for (const std::string& merge : spec.merges) {
    const size_t space = merge.find(' ');
    add(merge.substr(0, space) + merge.substr(space + 1), 1);
  }
  spec.bos_id = kSmallStart;
  spec.eos_id = kSmallEnd;
  return spec;
}

std::string RandomText(Rng& rng, uint64_t characters) {
  constexpr uint32_t kEnds[] = {0x80, 0x800, 0xD800, 0x110000};
  constexpr uint32_t kBegins[] = {0, 0x80, 0x800, 0x10000};
  std::string text;
  for (uint64_t i = rng.Below(characters + 1); i > 0; --i) {
    const uint64_t width = rng.Below(4);
    text += Utf8(kBegins[width] +
                 static_cast<uint32_t>(rng.Below(kEnds[width] - uint64_t{kBegins[width]})));
  }
  return text;
}

}  // namespace baton::text
