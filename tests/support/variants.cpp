#include "tests/support/variants.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "policies/registry/registry.h"
#include "sim/base/errors.h"
#include "sim/replay/estimator_steps.h"
#include "tests/support/nightly.h"

namespace kvsim::test_support {
namespace {

std::vector<std::string> candidates(const Param& param) {
  switch (param.type) {
    case Param::Type::integer: {
      const double initial = std::stod(param.initial);
      std::vector<std::string> values;
      for (const double value : {param.least, param.least + 1, initial - 1, initial + 1}) {
        if (value >= param.least && value <= param.most) {
          values.push_back(fmt::format("{:.0f}", value));
        }
      }
      values.push_back(fmt::format("{:.0f}", std::min(param.most, 1e6)));
      return values;
    }
    case Param::Type::real:
      return {fmt::format("{}", param.least), fmt::format("{}", (param.least + param.most) / 2),
              fmt::format("{}", param.most)};
    case Param::Type::amount:
      return {"0", "1", "5", "0.25", "100%"};
    case Param::Type::choice:
      return param.choices;
    case Param::Type::text:
      break;
  }
  return {};
}

// Whether small budgets are refused: the tests replay every variant at all budgets.
bool needs_room(const Spec& spec) {
  if (!spec.is_estimator()) return false;
  try {
    check_estimator(spec, 1);
    return false;
  } catch (const UsageError&) {
    return true;
  }
}

Spec with(const PolicyInfo& policy, const std::string& param, const std::string& value) {
  return Spec(policy.name + ":" + param + "=" + value);
}

}  // namespace

bool can_change(const CombinatorInfo& combinator, const Params& params, const Spec& policy) {
  return combinator.why_not == nullptr ||
         combinator.why_not(policy.policy(), policy.rules({}), params).empty();
}

bool can_change(const CombinatorInfo& combinator, const Spec& policy) {
  return can_change(combinator, Params(combinator.params), policy);
}

std::vector<std::string> alternatives(const Param& param) {
  std::vector<std::string> values = candidates(param);
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  std::erase(values, param.initial);
  return values;
}

std::vector<Variant> variants(const PolicyInfo& policy) {
  if (policy.reads_file()) return {};  // the tests have no file of a schedule or of scores
  std::vector<Variant> variants = {{"", Spec(policy)}};
  for (const Param& param : policy.params) {
    for (const std::string& value : alternatives(param)) {
      variants.push_back({param.name, with(policy, param.name, value)});
    }
  }
  for (const CombinatorInfo& combinator : combinators()) {
    if (!can_change(combinator, Spec(policy))) continue;
    variants.push_back({"+" + combinator.name, Spec(policy).with(combinator)});
  }
  std::erase_if(variants, [](const Variant& variant) { return needs_room(variant.spec); });
  return variants;
}

// By day each policy has a part of the combinators, and each combinator a part of the policies;
// h2o has all of them.
bool is_taken(std::size_t policy, const Variant& variant) {
  if (!variant.param.starts_with('+') || is_nightly()) return true;
  if (variant.spec.policy().name == "h2o" && !is_watched()) return true;
  std::size_t place = 0;
  while ("+" + combinators()[place].name != variant.param) ++place;
  return (policy + place) % (is_watched() ? 6 : 3) == 0;
}

// Whether a value of a parameter is one of the choices, each of which may be code of its own.
bool is_choice(const PolicyInfo& policy, const std::string& param) {
  return std::any_of(policy.params.begin(), policy.params.end(), [&](const Param& each) {
    return each.name == param && each.type == Param::Type::choice;
  });
}

std::vector<Variant> all_variants() {
  std::vector<Variant> all;
  std::size_t policy_place = 0;
  for (const PolicyInfo& policy : policies()) {
    std::string param;
    int value_place = 0;
    for (Variant& variant : variants(policy)) {
      const bool is_another_value = !variant.param.empty() && variant.param == param;
      value_place = is_another_value ? value_place + 1 : 0;
      param = variant.param;
      if (is_another_value && is_watched()) continue;
      // By day every second number.
      if (value_place % 2 == 1 && !is_nightly() && !is_choice(policy, param)) continue;
      if (!is_taken(policy_place, variant)) continue;
      if (variant.spec.needs() == TraceNeeds()) all.push_back(std::move(variant));
    }
    ++policy_place;
  }
  return all;
}

ReplayOptions options_for(const Spec& policy, ReplayOptions options) {
  if (!policy.rules({}).prompt_only) return options;
  options.protocol.mode = Mode::prefill;
  options.protocol.eviction_interval = kNeverEvict;
  return options;
}

std::vector<ReplayGroup> by_protocol(const ReplayOptions& options,
                                     const std::vector<Configuration>& configurations) {
  ReplayGroup plain{options, {}};
  ReplayGroup prompt_only{options, {}};
  for (const Configuration& configuration : configurations) {
    const bool is_plain = !configuration.policy.rules({}).prompt_only;
    ReplayGroup& group = is_plain ? plain : prompt_only;
    group.options = options_for(configuration.policy, options);
    group.configurations.push_back(configuration);
  }
  std::vector<ReplayGroup> groups{plain, prompt_only};
  std::erase_if(groups, [](const ReplayGroup& group) { return group.configurations.empty(); });
  return groups;
}

std::vector<SweepRequest> by_protocol(const SweepRequest& request) {
  const auto is_prompt_only = [](const Spec& policy) { return policy.rules({}).prompt_only; };
  SweepRequest plain = request;
  std::erase_if(plain.policies, is_prompt_only);
  SweepRequest prompt_only = request;
  std::erase_if(prompt_only.policies, std::not_fn(is_prompt_only));
  prompt_only.protocol.mode = Mode::prefill;
  prompt_only.protocol.eviction_interval = kNeverEvict;
  std::vector<SweepRequest> requests{plain, prompt_only};
  std::erase_if(requests, [](const SweepRequest& one) { return one.policies.empty(); });
  return requests;
}

}  // namespace kvsim::test_support
