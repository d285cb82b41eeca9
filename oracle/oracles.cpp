#include "oracle/oracles.h"

#include <fmt/format.h>

#include "policies/registry/registry.h"
#include "policies/registry/source_digest.h"

namespace kvsim {

// One line per oracle: NAME stands for the function NAME_oracle() that its file defines. The number
// is its place among the greys of figures, as in policies/registry/registry.cpp.
#define KVSIM_ORACLES(ORACLE) \
  ORACLE(optimal, 0)          \
  ORACLE(belady, 2)           \
  ORACLE(future, 3)           \
  ORACLE(lookahead, 7)        \
  ORACLE(greedy, 4)           \
  ORACLE(h2o_global, 5)       \
  ORACLE(certificate, 1)

#define KVSIM_DECLARE_ORACLE(name, place) PolicyInfo name##_oracle();
KVSIM_ORACLES(KVSIM_DECLARE_ORACLE)

namespace {

// An oracle's plan is followed by the policy of schedules.
PolicyInfo completed(PolicyInfo oracle, const char* name, int place) {
  oracle.color_place = place;
  oracle.code = source_digest(fmt::format("oracle/{}.cpp", name)) + ' ' +
                source_digest("policies/schedule.cpp");
  return oracle;
}

}  // namespace

void add_oracles() {
#define KVSIM_CALL(name, place) completed(name##_oracle(), #name, place),
  add_to_registry({KVSIM_ORACLES(KVSIM_CALL)});
#undef KVSIM_CALL
}

}  // namespace kvsim
