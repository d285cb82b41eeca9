#include <iostream>

#include "policies/registry/registry.h"
#include "sim/base/errors.h"
#include "sim/sweep/run_sweep.h"

// Calls what needs every library that the package stands on.
int main() {
  for (const kvsim::PolicyInfo& policy : kvsim::policies()) std::cout << policy.name << '\n';
  try {
    const kvsim::SweepRequest request{.traces = {"missing.h5"},
                                      .policies = {kvsim::Spec("h2o")},
                                      .budgets = {kvsim::Amount::parse("8", "budget")},
                                      .selection = {}};
    const kvsim::SweepPlan plan = kvsim::plan_sweep(request);
    const std::atomic<bool> interrupted = false;
    kvsim::run_sweep(plan, *kvsim::make_cpu_backend(), interrupted, [](const auto&, auto) {});
    return 1;
  } catch (const kvsim::DataError& error) {
    std::cout << error.what() << '\n';
  }
}
