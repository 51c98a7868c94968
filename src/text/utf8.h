// UTF-8 where pieces of a sequence may be missing: what a token ends with need not be a character.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace baton::text {

// Appends `bytes` to `out` with each ill-formed part as U+FFFD, one for each maximal subpart
// (Unicode 15, section 3.9), as Python, Rust and browsers do. With `last` false it stops before
// an unfinished sequence at the end. Returns how many bytes it took: all of them, or 1-3 less.
size_t AppendUtf8Lossy(std::string_view bytes, bool last, std::string* out);

}  // namespace baton::text
