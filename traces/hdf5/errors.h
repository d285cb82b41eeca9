#pragma once

#include <stdexcept>

namespace kvsim {

/// Invalid input data. The message names the file, the dataset or attribute, what was expected,
/// what was found and, if known, the fix. The program exits with 3.
class DataError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace kvsim
