#pragma once

#include <cstdlib>

#include "tests/support/sanitized.h"

namespace kvsim::test_support {

/// Whether tests look at all of their inputs, which takes hours, and not at a sample of them that
/// every assertion still sees: KVSIM_NIGHTLY, which `make nightly` sets.
inline bool is_nightly() { return std::getenv("KVSIM_NIGHTLY") != nullptr; }

/// Whether the sanitizers watch, which take several times as long: by day a test of every policy
/// then takes each parameter at one value other than its default, and few budgets and pages.
inline bool is_watched() { return is_sanitized() && !is_nightly(); }

/// `sample`, or `all` by night.
template <typename T>
T sample_of(T sample, T all) {
  return is_nightly() ? all : sample;
}

}  // namespace kvsim::test_support
