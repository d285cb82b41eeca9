#pragma once

#include <filesystem>
#include <vector>

#include "tests/bench/structured_heads.h"

// Heads in a form that other programs read and write: queries, then keys, then values, each
// [heads, tokens, head_dim] in the machine's float32.

namespace kvsim::bench {

/// The first shape.heads heads of a file of heads of shape.tokens tokens. Throws std::runtime_error
/// if the file cannot be read or has fewer.
std::vector<Unit> read_raw(const std::filesystem::path& file, const Shape& shape);

/// Throws std::runtime_error if that fails.
void write_raw(const std::vector<Unit>& heads, const std::filesystem::path& file);

}  // namespace kvsim::bench
