#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <vector>

#include "sim/sweep/run_sweep.h"

namespace kvsim::test_support {

inline SweepRequest request(const std::filesystem::path& trace, std::string_view policies,
                            const std::vector<std::string>& budgets) {
  SweepRequest request;
  request.traces = {trace};
  request.policies = parse_specs(policies);
  for (const std::string& budget : budgets) {
    request.budgets.push_back(Amount::parse_budget(budget, "--budgets"));
  }
  return request;
}

/// Of an open trace: many requests need not check its file again.
inline SweepRequest request(const Trace& trace, std::string_view policies,
                            const std::vector<std::string>& budgets) {
  SweepRequest of_file = request(std::filesystem::path(), policies, budgets);
  of_file.traces.clear();
  of_file.open_traces = {trace};
  return of_file;
}

/// The reports of a sweep, in order.
inline std::vector<Result> rows_of(const SweepRequest& request) {
  const std::atomic<bool> interrupted = false;
  std::vector<Result> rows;
  run_sweep(plan_sweep(request), *make_cpu_backend(), interrupted,
            [&](const PlannedUnit&, const std::vector<Outcome>& outcomes) {
              for (const Outcome& outcome : outcomes) rows.push_back(outcome.result);
            });
  return rows;
}

inline std::string name_of(const UnitName& name) {
  return fmt::format("{} {} {}", name.sequence, name.layer, name.kv_head);
}

}  // namespace kvsim::test_support
