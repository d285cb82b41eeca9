#pragma once

#include <string>
#include <vector>

#include "policies/registry/spec.h"

namespace kvsim::test_support {

/// The steps that an engine showed a policy, and its errors.
struct Recording {
  bool has_sink = false;                          ///< whether the replayed units have sinks
  std::vector<std::vector<std::int32_t>> tokens;  ///< per step
  std::vector<int> overflow;                      ///< per step
  std::string complaints;                         ///< errors; empty if none
};

/// The policy of `spec` wrapped so that it records into `recording`, which has to outlive the
/// replays. Only one spied policy may be in use at a time.
Spec spied(const Spec& spec, Recording& recording);

}  // namespace kvsim::test_support
