#include "sim/cli/policy_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iostream>

#include "policies/parameters/errors.h"
#include "sim/cli/session.h"

namespace kvsim::cli {
namespace {

struct LeftOut {
  std::vector<std::string> policies;
  std::string first_reason;
};

/// Removes the policies that check_policy() refuses.
std::vector<Spec> without_refused(std::vector<Spec> policies, const SweepRequest& request,
                                  LeftOut& left_out) {
  std::erase_if(policies, [&](const Spec& policy) {
    try {
      check_policy(policy, request);
      return false;
    } catch (const UsageError& error) {
      if (left_out.policies.empty()) left_out.first_reason = error.what();
      left_out.policies.push_back(policy.policy().name);
      return true;
    }
  });
  return policies;
}

}  // namespace

std::vector<Spec> policies_from(const Verb& verb, const po::variables_map& values,
                                const SweepRequest& request) {
  LeftOut left_out;
  const auto allowed = [&](const std::function<std::vector<Spec>()>& specs) {
    return
        [&, specs] { return without_refused(with_allocation(specs(), values), request, left_out); };
  };
  const NamedSpecs every = every_spec();
  std::vector<Spec> policies =
      specs_from(joined_from(verb, values, "policies", ';'), values,
                 {.all = allowed(every.all), .oracles = allowed(every.oracles)});
  if (policies.empty()) throw UsageError(left_out.first_reason);
  if (!left_out.policies.empty() && values.count("quiet") == 0) {
    std::cerr << fmt::format("kvsim: left out, as these options rule them out: {}\n",
                             fmt::join(left_out.policies, ", "));
  }
  return policies;
}

}  // namespace kvsim::cli
