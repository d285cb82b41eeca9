#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kvsim {

/// The parts of `text` between separators that stand outside of braces, empty ones included.
std::vector<std::string_view> split_outside_braces(std::string_view text, char separator);

/// A grid of parameters: every `{a,b,c}` of `text` stands for its entries, one after the other.
/// Several of them give all combinations, the last one varying fastest; a text without braces gives
/// itself. Throws UsageError, starting with `what`, for braces that are nested, empty or not
/// paired, for an empty entry, and for more than kMostOfAGrid texts.
std::vector<std::string> expand_grid(std::string_view text, std::string_view what);

inline constexpr std::size_t kMostOfAGrid = 1000;

}  // namespace kvsim
