// UTF-8 as the wire wants it. Pure.
#pragma once

#include <string_view>

namespace baton::wire {

// True for well-formed UTF-8 (RFC 3629: no overlong forms, no surrogates, nothing past U+10FFFF).
bool IsUtf8(std::string_view text);

}  // namespace baton::wire
