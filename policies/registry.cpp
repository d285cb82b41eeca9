#include "policies/registry.h"

#include <fmt/format.h>

#include "policies/errors.h"
#include "policies/nearest.h"

namespace kvsim {

// One line per policy: NAME stands for the function NAME_policy() that its file defines. A table
// rather than objects that register themselves, because a linker drops from a static library what
// nothing refers to.
#define KVSIM_POLICIES(POLICY) \
  POLICY(full)                 \
  POLICY(window)               \
  POLICY(sink)                 \
  POLICY(random)               \
  POLICY(h2o)                  \
  POLICY(tova)

#define KVSIM_DECLARE(name) PolicyInfo name##_policy();
KVSIM_POLICIES(KVSIM_DECLARE)
#undef KVSIM_DECLARE

std::span<const PolicyInfo> policies() {
#define KVSIM_CALL(name) name##_policy(),
  static const std::vector<PolicyInfo> table{KVSIM_POLICIES(KVSIM_CALL)};
#undef KVSIM_CALL
  return table;
}

const PolicyInfo& find_policy(std::string_view name) {
  std::vector<std::string> names;
  for (const PolicyInfo& policy : policies()) {
    if (policy.name == name) return policy;
    names.push_back(policy.name);
  }
  throw UsageError(
      fmt::format("unknown policy '{}'; did you mean '{}'? (kvsim policies lists them)", name,
                  nearest(name, names)));
}

}  // namespace kvsim
