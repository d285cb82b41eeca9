#include "oracle/oracles.h"

#include "policies/registry/registry.h"

namespace kvsim {

// One line per oracle: NAME stands for the function NAME_oracle() that its file defines.
#define KVSIM_ORACLES(ORACLE) \
  ORACLE(optimal)             \
  ORACLE(belady)              \
  ORACLE(future)              \
  ORACLE(greedy)              \
  ORACLE(h2o_global)          \
  ORACLE(certificate)

#define KVSIM_DECLARE_ORACLE(name) PolicyInfo name##_oracle();
KVSIM_ORACLES(KVSIM_DECLARE_ORACLE)

void add_oracles() {
#define KVSIM_CALL(name) name##_oracle(),
  add_to_registry({KVSIM_ORACLES(KVSIM_CALL)});
#undef KVSIM_CALL
}

}  // namespace kvsim
