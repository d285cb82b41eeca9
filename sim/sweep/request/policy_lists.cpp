#include "sim/sweep/request/policy_lists.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "policies/registry/aliases.h"
#include "sim/base/errors.h"
#include "sim/sweep/trace_needs.h"

namespace kvsim {
namespace {

std::vector<Spec> with_allocation(std::vector<Spec> policies, const AllocationSpec& allocation) {
  for (Spec& policy : policies) policy = policy.allocated(allocation);
  return each_once(std::move(policies));
}

std::vector<std::string> hints_for_aliases(const std::vector<Spec>& specs) {
  std::vector<std::string> hints;
  std::set<std::string> hinted;
  for (const Spec& spec : specs) {
    if (!spec.alias().empty() && hinted.insert(spec.alias()).second) {
      hints.push_back(alias_note(spec));
    }
  }
  return hints;
}

/// Throws UsageError if a trace of the request lacks what the policy needs: the rotation of keys,
/// or what check_needs() demands.
void check_traces(const Spec& policy, SweepRequest& request) {
  const bool sees_rotation = policy.rules({}).sees_rotation;
  if (!sees_rotation && policy.needs() == TraceNeeds()) return;
  open_traces(request);
  for (const Trace& trace : request.open_traces) {
    for (const SelectedUnit& unit : select_units(trace, request.selection)) {
      if (sees_rotation && !unit.shape.rope) {
        throw UsageError(fmt::format(
            "{} needs to know how keys were rotated, which a trace does not say; record it again",
            policy.text()));
      }
      try {
        check_needs(policy, trace, unit, request.protocol);
      } catch (const DataError& error) {
        throw UsageError(error.what());
      }
    }
  }
}

struct LeftOut {
  std::vector<std::string> policies;
  std::string first_reason;
};

/// Removes the policies that check_policy() refuses, and those that need what a trace lacks.
std::vector<Spec> without_refused(std::vector<Spec> policies, SweepRequest& request,
                                  LeftOut& left_out) {
  std::erase_if(policies, [&](const Spec& policy) {
    try {
      check_policy(policy, request);
      check_traces(policy, request);
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

std::string alias_note(const Spec& spec) {
  if (spec.alias().empty()) return "";
  return fmt::format("{} is {} here", spec.alias(), find_alias(spec.alias())->spec());
}

PolicyList policies_in(std::span<const std::string> lists, const AllocationSpec& allocation,
                       const NamedSpecs& named) {
  std::vector<Spec> specs = parse_specs(lists, named);
  std::vector<std::string> hints = hints_for_aliases(specs);
  return {with_allocation(std::move(specs), allocation), std::move(hints)};
}

PolicyList policies_for(SweepRequest& request, std::span<const std::string> lists,
                        const AllocationSpec& allocation, const NamedSpecs& named) {
  LeftOut left_out;
  const auto allowed = [&](const std::function<std::vector<Spec>()>& specs) {
    return [&, specs] {
      return without_refused(with_allocation(specs(), allocation), request, left_out);
    };
  };
  PolicyList found = policies_in(lists, allocation,
                                 {.all = allowed(named.all), .oracles = allowed(named.oracles)});
  if (found.policies.empty()) throw UsageError(left_out.first_reason);
  if (!left_out.policies.empty()) {
    found.notes.push_back(fmt::format("left out, as these options rule them out: {}",
                                      fmt::join(left_out.policies, ", ")));
  }
  return found;
}

}  // namespace kvsim
