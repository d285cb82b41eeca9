#pragma once

#include <cstdlib>

namespace kvsim::test_support {

/// Whether tests look at all of their inputs, which takes hours, and not at a sample of them that
/// every assertion still sees: KVSIM_NIGHTLY, which `make nightly` sets.
inline bool is_nightly() { return std::getenv("KVSIM_NIGHTLY") != nullptr; }

/// `sample`, or `all` by night.
template <typename T>
T sample_of(T sample, T all) {
  return is_nightly() ? all : sample;
}

}  // namespace kvsim::test_support
