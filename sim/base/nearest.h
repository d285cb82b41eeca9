#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvsim {

/// The candidate with the smallest edit distance to `word`, the first of several; for messages such
/// as "unknown policy 'h20'; did you mean 'h2o'?". `candidates` must not be empty.
std::string nearest(std::string_view word, std::span<const std::string> candidates);

/// Throws UsageError if `value` of `option` ("--mode") is not one of `choices`.
void check_choice(const std::string& option, const std::string& value,
                  const std::vector<std::string>& choices);

}  // namespace kvsim
