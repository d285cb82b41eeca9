#include "sim/results/policy_code.h"

#include <fmt/format.h>

#include "sim/base/errors.h"
#include "traces/sha256.h"

namespace kvsim {

std::string policy_code(const Spec& policy, int results_version) {
  constexpr std::size_t kDigits = 16;
  return sha256(fmt::format("{} {}", results_version, policy.code())).substr(0, kDigits);
}

bool is_current(const Result& row) {
  try {
    return row.policy_code == policy_code(Spec::stored(row.policy));
  } catch (const UsageError&) {
    return false;
  }
}

}  // namespace kvsim
