#pragma once

#include <cstddef>

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

  /// Writes the numbers first .. first + length - 1 to `floats`.
  void read(std::size_t first, std::size_t length, float* floats) const;
};

}  // namespace kvsim
