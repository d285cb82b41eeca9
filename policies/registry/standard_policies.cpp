#include "policies/registry/standard_policies.h"

namespace kvsim {

Spec full_cache() { return Spec("full"); }

Spec baseline() { return Spec("window"); }

std::string recall_optimum() { return "optimal:recent=0,cost=mass,weight=uniform"; }

Spec scheduled() { return Spec(find_policy("schedule")); }

bool is_subgen(const Spec& policy) { return policy.policy().name == "subgen"; }

}  // namespace kvsim
