#include "policies/registry/spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "policies/parameters/split.h"
#include "policies/registry/aliases.h"
#include "policies/registry/recipe.h"
#include "policies/registry/settings.h"
#include "policies/registry/source_digest.h"
#include "sim/base/errors.h"
#include "sim/base/nearest.h"

namespace kvsim {
namespace {

constexpr std::string_view kPreset = "preset";  // reserved: no parameter may have this name

std::string_view name_of(std::string_view part) {
  return part.substr(0, part.find_first_of(":+@"));
}

/// Null if `name` is no alias, or a policy has that name.
const PolicyAlias* alias_of(std::string_view name) {
  const PolicyAlias* alias = find_alias(name);
  if (alias == nullptr) return nullptr;
  const auto has_name = [&](const PolicyInfo& policy) { return policy.name == name; };
  return std::any_of(policies().begin(), policies().end(), has_name) ? nullptr : alias;
}

const PolicyInfo& named_policy(std::string_view name) {
  const PolicyAlias* alias = alias_of(name);
  return find_policy(alias == nullptr ? name : alias->policy);
}

// The settings after the colon of `part`, if it has one.
Settings settings_of(std::string_view part, const std::string& owner) {
  const std::size_t colon = part.find(':');
  return colon == std::string_view::npos ? Settings()
                                         : parse_settings(part.substr(colon + 1), owner);
}

const Preset& find_preset(const PolicyInfo& policy, std::string_view name) {
  if (policy.presets.empty()) {
    throw UsageError(fmt::format("policy {} has no presets, found 'preset={}'", policy.name, name));
  }
  std::vector<std::string> names;
  for (const Preset& preset : policy.presets) {
    if (preset.name == name) return preset;
    names.push_back(preset.name);
  }
  throw UsageError(fmt::format("policy {} has no preset '{}'; did you mean '{}'? It has: {}",
                               policy.name, name, nearest(name, names), fmt::join(names, ", ")));
}

void apply_preset(Params& params, const PolicyInfo& policy, std::string_view name) {
  const Preset& preset = find_preset(policy, name);
  const std::string owner = fmt::format("preset {} of policy {}", preset.name, policy.name);
  if (preset.acausal) {
    throw UsageError(fmt::format("{} sees the future ({}); it belongs to the oracles", owner,
                                 preset.reproduces));
  }
  if (preset.settings.empty()) return;
  for (const auto& [key, value] : parse_settings(preset.settings, owner)) {
    params.set(key, value, owner);
  }
}

std::string joined(const std::string& name, const Params& params) {
  const std::string values = params.text();
  return values.empty() ? name : name + ':' + values;
}

}  // namespace

Spec::Spec(std::string_view text)
    : Spec(is_recipe(text) ? of_recipe(text) : Spec(text, AsWritten())) {}

Spec::Spec(std::string_view text, AsWritten) : Spec(named_policy(name_of(text))) {
  if (const PolicyAlias* alias = alias_of(name_of(text))) {
    alias_ = name_of(text);
    if (alias->allocation) allocation_ = AllocationSpec(*alias->allocation);
  }
  const std::size_t at = text.find('@');
  if (at != std::string_view::npos) {
    if (allocation_) {
      throw UsageError(fmt::format("policy '{}': {} is {}; write {} and the split that is meant",
                                   text, alias_, find_alias(alias_)->spec(), policy_->name));
    }
    allocation_ = AllocationSpec(text.substr(at + 1));
  }
  const std::vector<std::string_view> parts = split(text.substr(0, at), '+');
  const std::string owner = "policy " + policy_->name;
  const Settings settings = settings_of(parts.front(), owner);
  for (const auto& [name, value] : settings) {
    if (name == kPreset) apply_preset(params_, *policy_, value);
  }
  for (const auto& [name, value] : settings) {
    if (name == kPreset || set_of_alias(name, value)) continue;
    params_.set(name, value, owner);
  }
  if (!alias_.empty() && allocation_) share_with_allocation();
  if (allocation_) allocation_->require_file();
  if (policy_->reads_file() && file().empty()) {
    throw UsageError(owner + " needs a file: " + policy_->name + ":file=PATH");
  }
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const CombinatorInfo& combinator = find_combinator(name_of(parts[i]));
    auto& [info, params] = combinators_.emplace_back(&combinator, combinator.params);
    const std::string what = "combinator " + combinator.name;
    for (const auto& [name, value] : settings_of(parts[i], what)) params.set(name, value, what);
  }
  check_combinators();
}

// A setting of an alias that is one of the split which the alias stands for.
bool Spec::set_of_alias(std::string_view name, std::string_view value) {
  if (alias_.empty() || !allocation_ || !allocation_->has(name)) return false;
  allocation_->set(name, value);
  return true;
}

// What policy and split of an alias both name is the same in both: the sinks of DuoAttention.
void Spec::share_with_allocation() {
  for (const Param& param : policy_->params) {
    if (!allocation_->has(param.name)) continue;
    params_.set(param.name, fmt::format("{}", allocation_->params().integer(param.name)),
                "policy " + policy_->name);
  }
}

Spec Spec::with(const CombinatorInfo& combinator) const {
  Spec changed = *this;
  changed.combinators_.emplace_back(&combinator, combinator.params);
  changed.check_combinators();
  return changed;
}

Spec Spec::allocated(const AllocationSpec& allocation) const {
  Spec changed = *this;
  if (!allocation_) changed.allocation_ = allocation;
  return changed;
}

Spec Spec::labelled(const std::string& label) const {
  Spec changed = *this;
  changed.label_ = label;
  return changed;
}

Spec Spec::with_file_sha256(const std::string& sha256) const {
  Spec changed = *this;
  changed.params_.set("sha256", sha256, "policy " + policy_->name);
  return changed;
}

Spec Spec::with_scorer(std::shared_ptr<const Scorer> scorer) const {
  Spec changed = *this;
  changed.scorer_ = std::move(scorer);
  return changed;
}

Spec Spec::with_allocation_file(const std::string& sha256) const {
  Spec changed = *this;
  changed.allocation_ = allocation_spec().with_sha256(sha256);
  return changed;
}

std::string Spec::text() const {
  std::string text = joined(policy_->name, params_);
  for (const auto& [combinator, params] : combinators_) {
    text += '+' + joined(combinator->name, params);
  }
  if (allocation() != Allocation::uniform) text += '@' + allocation_->text();
  return text;
}

std::string Spec::code() const {
  std::string code = policy_->code;
  for (const auto& [combinator, params] : combinators_) code += ' ' + combinator->code;
  if (allocation() != Allocation::uniform) code += ' ' + source_digest("sim/sweep/allocate.cpp");
  return code;
}

const std::string& Spec::file() const { return params_.text("file"); }

const std::string& Spec::file_sha256() const { return params_.text("sha256"); }

std::unique_ptr<Policy> Spec::make(const Context& context) const {
  std::unique_ptr<Policy> policy = bare_policy(context);
  if (policy == nullptr) return policy;
  for (const auto& [combinator, params] : combinators_) {
    if (combinator->wrap == nullptr) continue;
    policy = combinator->wrap(std::move(policy), rules(context), params, within(context));
  }
  return policy;
}

std::unique_ptr<Policy> Spec::bare_policy(const Context& context) const {
  return policy_->make == nullptr ? nullptr : policy_->make(params_, within(context));
}

std::unique_ptr<Estimator> Spec::make_estimator(const Context& context) const {
  return is_estimator() ? policy_->make_estimator(params_, context) : nullptr;
}

// Without combinators and allocation, whose effects may depend on the budget.
bool Spec::is_bare() const { return combinators_.empty() && allocation() == Allocation::uniform; }

bool Spec::nests() const {
  if (policy_->nests == nullptr || !is_bare() || !policy_->nests(params_)) return false;
  // What follows all budgets at once evicts one token of one head at a time.
  const Rules rules = this->rules({});
  return rules.scope == Scope::head && rules.bounded && rules.drop == 1 && !rules.selects &&
         !rules.prunes && !rules.prompt_only && !rules.slot_positions;
}

TraceNeeds Spec::needs() const {
  TraceNeeds needs = policy_->needs == nullptr ? TraceNeeds() : policy_->needs(params_);
  for (const auto& [combinator, params] : combinators_) {
    needs.answer_spans |= combinator->needs.answer_spans;
    needs.output_projection |= combinator->needs.output_projection;
    needs.output_score_grad |= combinator->needs.output_score_grad;
  }
  return needs;
}

bool Spec::plans_every_budget() const {
  return policy_->plans_every_budget != nullptr && is_bare() &&
         policy_->plans_every_budget(params_);
}

bool Spec::plans_pages() const {
  return policy_->plans_pages != nullptr && policy_->plans_pages(params_);
}

bool Spec::bounds_recall() const {
  return policy_->bounds_recall != nullptr && policy_->bounds_recall(params_) &&
         combinators_.empty();
}

Rules Spec::rules(const Context& context) const { return rules_without(nullptr, context); }

// As if `left_out` were not there.
Rules Spec::rules_without(const Params* left_out, const Context& context) const {
  Rules rules;
  if (const auto policy = bare_policy(context)) rules = policy->rules();
  for (const auto& [combinator, params] : combinators_) {
    if (&params != left_out) combinator->change(rules, params, within(context));
  }
  return rules;
}

int Spec::tokens_of(int budget) const {
  const auto adds_entry = [](const auto& used) { return used.first->adds_entry; };
  return budget - (std::any_of(combinators_.begin(), combinators_.end(), adds_entry) ? 1 : 0);
}

// Parameters are shares of what the policy may keep. A budget of the entry alone leaves it nothing,
// but no policy is made for less than one token.
Context Spec::within(Context context) const {
  context.budget = std::max(1, tokens_of(context.budget));
  if (scorer_) context.scorer = scorer_;
  return context;
}

void Spec::check_combinators() const {
  for (const auto& [combinator, params] : combinators_) {
    const auto same = [&, wanted = combinator](const auto& other) { return other.first == wanted; };
    if (combinator->why_not != nullptr &&
        std::count_if(combinators_.begin(), combinators_.end(), same) > 1) {
      throw UsageError(
          fmt::format("{}: +{} stands twice; leave one out", text(), combinator->name));
    }
    if (combinator->why_not == nullptr) continue;
    const std::string reason = combinator->why_not(*policy_, rules_without(&params, {}), params);
    if (reason.empty()) continue;
    throw UsageError(
        fmt::format("+{} cannot change {}: {}; leave it out", combinator->name, text(), reason));
  }
}

}  // namespace kvsim
