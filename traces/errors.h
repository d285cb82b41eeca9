#pragma once

#include <stdexcept>

namespace kvsim {

/// Input that cannot be used as it is. The message names the file, the dataset or attribute, what
/// was expected, what was found and, where there is one, the fix. The program exits with 3.
class DataError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace kvsim
