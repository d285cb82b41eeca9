#include <fmt/format.h>

#include <limits>

#include "sim/base/errors.h"
#include "sim/plugin/c_policy.h"
#include "sim/plugin/declared_parameters.h"
#include "sim/plugin/descriptors.h"

namespace kvsim {
namespace {

/// What is left of a descriptor once it is registered.
struct CDescriptor {
  std::string owner;  // "policy mine"
  std::vector<Param> params;
  decltype(kvsim_policy::rules) rules;
  decltype(kvsim_policy::create) create;
  decltype(kvsim_policy::update) update;
  decltype(kvsim_policy::destroy) destroy;
};

void check_rule(const CDescriptor& policy, std::string_view rule, std::int32_t value, int least,
                int most) {
  if (value >= least && value <= most) return;
  throw DataError(fmt::format("{}: its rules say {}={}, expected {}..{}", policy.owner, rule, value,
                              least, most));
}

kvsim_rules rules_of(const CDescriptor& policy, const Params& params,
                     const std::vector<double>& numbers, int budget) {
  kvsim_rules rules = {};
  rules.drop = 1;
  rules.bounded = 1;
  if (policy.rules == nullptr) return rules;
  if (const std::int32_t result = policy.rules(numbers.data(), budget, &rules); result != 0) {
    throw UsageError(fmt::format("{}: it refuses {} at a budget of {}: rules() returned {}",
                                 policy.owner, params.text(), budget, result));
  }
  constexpr int kMost = std::numeric_limits<std::int32_t>::max();
  check_rule(policy, "protect_first", rules.protect_first, 0, kMost);
  check_rule(policy, "protect_newest", rules.protect_newest, 0, kMost);
  check_rule(policy, "drop", rules.drop, 1, kMost);
  check_rule(policy, "scope", rules.scope, KVSIM_SCOPE_HEAD, KVSIM_SCOPE_MODEL);
  return rules;
}

Scope scope_of(std::int32_t scope) {
  if (scope == KVSIM_SCOPE_LAYER) return Scope::layer;
  return scope == KVSIM_SCOPE_MODEL ? Scope::model : Scope::head;
}

std::unique_ptr<Policy> make(const CDescriptor& policy, const Params& params,
                             const Context& context) {
  const std::vector<double> numbers = numbers_of(policy.params, params, context.budget);
  const kvsim_rules rules = rules_of(policy, params, numbers, context.budget);
  CFunction function{
      .owner = policy.owner,
      .rules = {.protect_first = rules.protect_first,
                .protect_newest = rules.protect_newest,
                .drop = rules.drop,
                .bounded = rules.bounded != 0 && rules.selects == 0,
                .sees_full_attention = rules.sees_full_attention != 0 || rules.selects != 0,
                .sees_values = rules.sees_values != 0,
                .sees_queries = rules.sees_queries != 0,
                .prompt_only = rules.prompt_only != 0,
                .selects = rules.selects != 0,
                .prunes = rules.prunes != 0,
                .scope = scope_of(rules.scope)},
      .sees_keys = rules.sees_keys != 0,
      .update = policy.update};
  if (policy.create != nullptr) {
    function.make_state = [policy, numbers, budget = context.budget, seed = context.seed] {
      void* state = policy.create(numbers.data(), budget, seed);
      if (state == nullptr) throw DataError(policy.owner + ": create() returned NULL");
      return std::shared_ptr<void>(state, [destroy = policy.destroy](void* made) {
        if (destroy != nullptr) destroy(made);
      });
    };
  }
  return std::make_unique<CPolicy>(std::move(function));
}

}  // namespace

PolicyInfo policy_info_of(const kvsim_policy& policy, const PluginFile& file) {
  check_descriptor(policy.version, policy.size, sizeof policy, file.name + ": a policy");
  const std::string name = text_of(policy.name, true, file.name + ": the name of a policy");
  const std::string owner = fmt::format("{}: policy '{}'", file.name, name);
  check_name(name, true, owner);
  if (policy.update == nullptr) throw DataError(owner + ": expected update(), found NULL");
  const CDescriptor descriptor{
      .owner = fmt::format("policy {} of {}", name, file.name),
      .params = parameters_of(policy.parameters, policy.num_parameters, owner),
      .rules = policy.rules,
      .create = policy.create,
      .update = policy.update,
      .destroy = policy.destroy};
  PolicyInfo info{.name = name,
                  .keeps = text_of(policy.keeps, true, owner + ": keeps"),
                  .source = text_of(policy.source, false, owner + ": source"),
                  .sees = text_of(policy.sees, false, owner + ": sees"),
                  .differences = text_of(policy.differences, false, owner + ": differences"),
                  .params = descriptor.params};
  if (policy.nests != 0) info.nests = always_nests;
  info.make = [descriptor](const Params& params, const Context& context) {
    return make(descriptor, params, context);
  };
  info.code = file.code;
  info.origin = file.name;
  return info;
}

}  // namespace kvsim
