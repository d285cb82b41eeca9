#pragma once

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace kvsim::cli_test {

/// Whether two rows of `--format json` are of the same replay: equal up to the last digits of
/// numbers, which may depend on the other replays of the unit, and up to the run.
inline bool agree(const nlohmann::json& a, const nlohmann::json& b) {
  if (a.size() != b.size()) return false;
  for (const auto& [name, x] : a.items()) {
    if (!b.contains(name)) return false;
    const nlohmann::json& y = b[name];
    if (name == "run_id") continue;
    if (!x.is_number_float() || !y.is_number_float()) {
      if (x != y) return false;
    } else if (std::abs(x.get<double>() - y.get<double>()) > 2e-5 * std::abs(x.get<double>())) {
      return false;
    }
  }
  return true;
}

}  // namespace kvsim::cli_test
