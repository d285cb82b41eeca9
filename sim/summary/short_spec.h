#pragma once

#include <string>
#include <vector>

#include "policies/registry/spec.h"

namespace kvsim {

/// A canonical spec without the parameters that have their defaults, for tables: "h2o" for
/// "h2o:recent=0.5,score=sum,...". It names the same policy.
std::string short_spec(const std::string& canonical);

/// The policy's label, or its short spec where it has none; printable().
std::string name_in_tables(const Spec& policy);

/// What the labels of policies stand for: a line "LABEL = SPEC" for each; printable().
std::string legend(const std::vector<Spec>& policies);

}  // namespace kvsim
