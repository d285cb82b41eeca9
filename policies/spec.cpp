#include "policies/spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "policies/errors.h"
#include "policies/split.h"

namespace kvsim {
namespace {

std::string_view name_of(std::string_view part) { return part.substr(0, part.find(':')); }

// Sets what stands behind the colon of `part`, if there is one.
void set_all(Params& params, std::string_view part, const std::string& owner) {
  const std::size_t colon = part.find(':');
  if (colon == std::string_view::npos) return;
  std::set<std::string_view> seen;
  for (std::string_view setting : split(part.substr(colon + 1), ',')) {
    const std::size_t equals = setting.find('=');
    if (equals == std::string_view::npos) {
      throw UsageError(fmt::format("{}: '{}' is not of the form key=value", owner, setting));
    }
    const std::string_view name = setting.substr(0, equals);
    if (!seen.insert(name).second) {
      throw UsageError(fmt::format("{}: '{}' is given twice", owner, name));
    }
    params.set(name, setting.substr(equals + 1), owner);
  }
}

std::string joined(const std::string& name, const Params& params) {
  const std::string values = params.text();
  return values.empty() ? name : name + ':' + values;
}

}  // namespace

Spec::Spec(std::string_view text) : Spec(find_policy(name_of(text.substr(0, text.find('+'))))) {
  const std::vector<std::string_view> parts = split(text, '+');
  set_all(params_, parts.front(), "policy " + policy_->name);
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const CombinatorInfo& combinator = find_combinator(name_of(parts[i]));
    auto& [info, params] = combinators_.emplace_back(&combinator, combinator.params);
    set_all(params, parts[i], "combinator " + combinator.name);
  }
}

Spec Spec::with(const CombinatorInfo& combinator) const {
  Spec changed = *this;
  changed.combinators_.emplace_back(&combinator, combinator.params);
  return changed;
}

std::string Spec::text() const {
  std::string text = joined(policy_->name, params_);
  for (const auto& [combinator, params] : combinators_) {
    text += '+' + joined(combinator->name, params);
  }
  return text;
}

std::unique_ptr<Policy> Spec::make(const Context& context) const {
  std::unique_ptr<Policy> policy = policy_->make(params_, context);
  for (const auto& [combinator, params] : combinators_) {
    policy = combinator->wrap(std::move(policy), params, context);
  }
  return policy;
}

std::vector<Spec> parse_specs(std::string_view list) {
  std::vector<Spec> specs;
  const auto add = [&](Spec spec) {
    const auto same = [&](const Spec& other) { return other.text() == spec.text(); };
    if (std::none_of(specs.begin(), specs.end(), same)) specs.push_back(std::move(spec));
  };
  for (std::string_view part : split(list, ';')) {
    if (part.empty()) continue;
    if (part == "all") {
      for (const PolicyInfo& policy : policies()) add(Spec(policy));
    } else {
      add(Spec(part));
    }
  }
  if (specs.empty()) throw UsageError("no policy is named; kvsim policies lists them");
  return specs;
}

}  // namespace kvsim
