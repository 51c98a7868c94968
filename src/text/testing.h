// A vocabulary for tests that is small enough to read: every byte, a few merges, control tokens.
#pragma once

#include <string>

#include "src/base/rng.h"
#include "src/text/tokenizer.h"

namespace baton::text {

// Ids: 0 "<|end|>", 1 "<|start|>", 2 "<|stop" (controls), 3 "<tool>" (user defined), 4..259 the
// bytes 0..255, from 260 on the merges "Ġ t", "h e", "Ġt he", "é" and "l l".
TokenizerSpec SmallSpec();
inline constexpr int32_t kSmallEnd = 0;
inline constexpr int32_t kSmallStart = 1;
inline constexpr int32_t kSmallTool = 3;
inline constexpr int32_t kSmallFirstByte = 4;
inline constexpr int32_t kSmallThe = 262;  // " the"

// Well-formed UTF-8 of up to `characters` characters, of one to four bytes each.
std::string RandomText(Rng& rng, uint64_t characters);

}  // namespace baton::text
