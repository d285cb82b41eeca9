#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <vector>

#include "sim/core/sweep.h"

namespace kvsim::core_test {

inline SweepRequest request(const std::filesystem::path& trace, std::string_view policies,
                            const std::vector<std::string>& budgets) {
  SweepRequest request;
  request.traces = {trace};
  request.policies = parse_specs(policies);
  for (const std::string& budget : budgets) {
    request.budgets.push_back(Amount::parse(budget, "--budgets"));
  }
  return request;
}

inline std::string name_of(const UnitName& name) {
  return fmt::format("{} {} {}", name.sequence, name.layer, name.kv_head);
}

}  // namespace kvsim::core_test
