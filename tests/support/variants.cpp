#include "tests/support/variants.h"

#include <fmt/format.h>

#include <algorithm>

#include "policies/parameters/errors.h"
#include "policies/registry/registry.h"
#include "sim/replay/estimator_replay.h"

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

std::vector<std::string> alternatives(const Param& param) {
  std::vector<std::string> values = candidates(param);
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  std::erase(values, param.initial);
  return values;
}

std::vector<Variant> variants(const PolicyInfo& policy) {
  if (policy.follows_schedule) return {};  // the tests have no schedule file
  std::vector<Variant> variants = {{"", Spec(policy)}};
  for (const Param& param : policy.params) {
    for (const std::string& value : alternatives(param)) {
      variants.push_back({param.name, with(policy, param.name, value)});
    }
  }
  for (const CombinatorInfo& combinator : combinators()) {
    variants.push_back({"+" + combinator.name, Spec(policy).with(combinator)});
  }
  std::erase_if(variants, [](const Variant& variant) { return needs_room(variant.spec); });
  return variants;
}

std::vector<Variant> all_variants() {
  std::vector<Variant> all;
  for (const PolicyInfo& policy : policies()) {
    for (Variant& variant : variants(policy)) all.push_back(std::move(variant));
  }
  return all;
}

}  // namespace kvsim::test_support
