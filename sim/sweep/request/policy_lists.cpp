#include "sim/sweep/request/policy_lists.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "policies/parameters/errors.h"
#include "policies/registry/aliases.h"

namespace kvsim {
namespace {

std::vector<Spec> with_allocation(std::vector<Spec> policies, Allocation allocation) {
  for (Spec& policy : policies) policy = policy.allocated(allocation);
  return each_once(std::move(policies));
}

std::vector<std::string> hints_for_aliases(const std::vector<Spec>& specs) {
  std::vector<std::string> hints;
  std::set<std::string> told;
  for (const Spec& spec : specs) {
    if (!spec.alias().empty() && told.insert(spec.alias()).second) {
      hints.push_back(alias_note(spec));
    }
  }
  return hints;
}

/// Whether a trace of the request does not say how keys were rotated.
bool lacks_rotation(const SweepRequest& request) {
  const auto lacks = [](const Trace& trace) { return !trace.header().rope; };
  return std::any_of(request.open_traces.begin(), request.open_traces.end(), lacks) ||
         std::any_of(request.traces.begin(), request.traces.end(),
                     [&](const std::filesystem::path& file) { return lacks(Trace(file)); });
}

struct LeftOut {
  std::vector<std::string> policies;
  std::string first_reason;
};

/// Removes the policies that check_policy() refuses, and those that need the rotation where a trace
/// lacks it.
std::vector<Spec> without_refused(std::vector<Spec> policies, const SweepRequest& request,
                                  LeftOut& left_out) {
  std::erase_if(policies, [&](const Spec& policy) {
    try {
      check_policy(policy, request);
      if (!policy.rules({}).sees_rotation || !lacks_rotation(request)) return false;
      throw UsageError(fmt::format(
          "{} needs to know how keys were rotated, which a trace does not say; record it again",
          policy.text()));
    } catch (const UsageError& error) {
      if (left_out.policies.empty()) left_out.first_reason = error.what();
      left_out.policies.push_back(policy.policy().name);
      return true;
    }
  });
  return policies;
}

}  // namespace

std::string alias_note(const Spec& spec) {
  if (spec.alias().empty()) return "";
  const PolicyAlias& alias = *find_alias(spec.alias());
  return fmt::format("{} is {} here{}{}", spec.alias(), alias.spec(),
                     alias.note.empty() ? "" : "; ", alias.note);
}

PolicyList policies_in(const std::string& list, Allocation allocation, const NamedSpecs& named) {
  std::vector<Spec> specs = parse_specs(list, named);
  std::vector<std::string> hints = hints_for_aliases(specs);
  return {with_allocation(std::move(specs), allocation), std::move(hints)};
}

PolicyList policies_for(const SweepRequest& request, const std::string& list,
                        Allocation allocation) {
  LeftOut left_out;
  const auto allowed = [&](const std::function<std::vector<Spec>()>& specs) {
    return [&, specs] {
      return without_refused(with_allocation(specs(), allocation), request, left_out);
    };
  };
  const NamedSpecs every = every_spec();
  PolicyList found =
      policies_in(list, allocation, {.all = allowed(every.all), .oracles = allowed(every.oracles)});
  if (found.policies.empty()) throw UsageError(left_out.first_reason);
  if (!left_out.policies.empty()) {
    found.notes.push_back(fmt::format("left out, as these options rule them out: {}",
                                      fmt::join(left_out.policies, ", ")));
  }
  return found;
}

}  // namespace kvsim
