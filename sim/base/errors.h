#pragma once

#include <stdexcept>

namespace kvsim {

/// An invalid request: an unknown name, a value out of range. The message names the option or the
/// policy, what is allowed and the nearest valid spelling. The program exits with 2.
class UsageError : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

/// Invalid input data. The message names the file, the dataset or attribute, what was expected,
/// what was found and, if known, the fix. The program exits with 3.
class DataError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A run ended because the user ended it.
class Interrupted : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace kvsim
