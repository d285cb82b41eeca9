#pragma once

#include <filesystem>

#include "traces/trace_writer.h"

namespace kvsim::test_support {

constexpr int kLongSequence = 40;
constexpr int kShortSequence = 25;
constexpr int kPrompt = 10;
constexpr std::size_t kUnits = 8;

/// Writes a trace of random numbers: sequences "a" and "b" of the lengths above, each of two layers
/// with two KV heads and four query heads. With `hidden` also output projections of that width,
/// residual streams and gradients.
void write_random_trace(const std::filesystem::path& file, std::uint64_t seed,
                        int prompt_length = kPrompt, int hidden = 0);

}  // namespace kvsim::test_support
