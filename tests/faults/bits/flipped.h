#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "traces/trace.h"

namespace kvsim::faults {

/// What became of a trace of which one bit was changed.
enum class Flip : char { equal, refused, other, died };

struct FlipCounts {
  std::size_t equal = 0;
  std::size_t refused = 0;
  std::vector<std::size_t> other;  ///< bits that give other numbers and no error
  std::vector<std::size_t> died;   ///< bits with which Trace(file) ends the process, or never ends
};

/// The bytes of an HDF5 file that are no chunk of a dataset of its `sequences`, nor of its models.
std::vector<std::size_t> metadata_bytes(const std::string& image);

/// Flips the bits with index i * 8 + b of the image, one at a time, and reads all of the trace with
/// numbers_of(), in children that may crash and hang. Bits with which a child does are read again
/// through Trace(file).
FlipCounts flip_bits(const std::string& image, const std::vector<std::size_t>& bits);

}  // namespace kvsim::faults
