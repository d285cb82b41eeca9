#include "oracle/oracles.h"

#include <fmt/format.h>

#include "policies/registry/registry.h"
#include "policies/registry/source_digest.h"

namespace kvsim {

// One line per oracle: NAME stands for the function NAME_oracle() that its file defines.
#define KVSIM_ORACLES(ORACLE) \
  ORACLE(optimal)             \
  ORACLE(belady)              \
  ORACLE(future)              \
  ORACLE(lookahead)           \
  ORACLE(greedy)              \
  ORACLE(h2o_global)          \
  ORACLE(certificate)

#define KVSIM_DECLARE_ORACLE(name) PolicyInfo name##_oracle();
KVSIM_ORACLES(KVSIM_DECLARE_ORACLE)

namespace {

// An oracle's plan is followed by the policy of schedules.
PolicyInfo with_code(PolicyInfo oracle, const char* name) {
  oracle.code = source_digest(fmt::format("oracle/{}.cpp", name)) + ' ' +
                source_digest("policies/schedule.cpp");
  return oracle;
}

}  // namespace

void add_oracles() {
#define KVSIM_CALL(name) with_code(name##_oracle(), #name),
  add_to_registry({KVSIM_ORACLES(KVSIM_CALL)});
#undef KVSIM_CALL
}

}  // namespace kvsim
