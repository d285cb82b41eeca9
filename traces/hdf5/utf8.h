#pragma once

#include <string_view>

namespace kvsim {

/// Whether the bytes are UTF-8: shortest forms, no surrogates, nothing beyond U+10FFFF.
bool is_utf8(std::string_view text);

}  // namespace kvsim
