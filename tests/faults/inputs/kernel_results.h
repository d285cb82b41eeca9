#pragma once

#include <cstddef>
#include <cstdint>

namespace kvsim::faults {

/// A number that a kernel computed.
struct KernelNumber {
  double value;
  double tolerance;  ///< 0: equal to the last bit
};

/// Runs the kernels on numbers made of `input` and writes what they computed, at most `most`
/// numbers, to `numbers`; returns how many. Name of the symbol: kernel_results.
using KernelResults = std::size_t(const std::uint8_t* input, std::size_t bytes,
                                  KernelNumber* numbers, std::size_t most);

}  // namespace kvsim::faults
