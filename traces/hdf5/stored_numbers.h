#pragma once

#include <cstddef>

#include "traces/hdf5/digest.h"

namespace kvsim {

/// How a file stores its numbers.
struct NumberFormat {
  int bytes = 4;            ///< of an element: 2 is float16, 4 float32
  bool big_endian = false;  ///< the order of the bytes of an element
};

/// Numbers as they lie in a file, converted some at a time, so that what is between fits the
/// processor's cache.
struct StoredNumbers {
  const unsigned char* bytes = nullptr;
  std::size_t count = 0;
  NumberFormat format;
  bool shuffled =
      false;  ///< first bytes of all elements, then the second ones, ...: HDF5's shuffle

  /// Writes the numbers first .. first + length - 1 to `floats`, and gives their bytes,
  /// little-endian, to `digest` unless it is null.
  void read(std::size_t first, std::size_t length, float* floats, Digest* digest = nullptr) const;
};

/// Gives `digest` the bytes of numbers that were read as floats from elements of so many bytes.
void digest_numbers(const float* floats, std::size_t length, int element_bytes, Digest& digest);

}  // namespace kvsim
