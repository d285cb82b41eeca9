#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace kvsim {

/// Bytes and how many there are.
struct PackedChunk {
  std::unique_ptr<unsigned char[]> bytes;
  std::size_t size = 0;
};

/// A chunk of numbers of `width` bytes each as HDF5's filters shuffle and gzip would store it,
/// packed without HDF5 and its lock. libdeflate's level 4 takes half the time of zlib's 1 and
/// is mostly smaller (traces/README.md).
PackedChunk pack_chunk(std::span<const unsigned char> numbers, std::size_t width);

}  // namespace kvsim
