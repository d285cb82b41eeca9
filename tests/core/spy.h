#pragma once

#include <string>
#include <vector>

#include "policies/spec.h"

namespace kvsim::core_test {

/// What an engine showed a policy, and what was wrong with it.
struct Recording {
  std::vector<std::vector<std::int32_t>> tokens;  ///< per step
  std::vector<int> overflow;                      ///< per step
  std::string complaints;                         ///< empty if all is well
};

/// The policy of `spec` wrapped so that it records into `recording`, which has to outlive the
/// replays. Only one spied policy may be in use at a time.
Spec spied(const Spec& spec, Recording& recording);

}  // namespace kvsim::core_test
