#pragma once

#include <span>
#include <string>
#include <string_view>

namespace kvsim {

/// The candidate with the smallest edit distance to `word`, the first of several; for messages such
/// as "unknown policy 'h20'; did you mean 'h2o'?". `candidates` must not be empty.
std::string nearest(std::string_view word, std::span<const std::string> candidates);

}  // namespace kvsim
