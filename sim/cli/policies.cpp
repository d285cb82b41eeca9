#include <fmt/format.h>

#include <algorithm>
#include <iostream>

#include "policies/registry/aliases.h"
#include "policies/registry/needs.h"
#include "policies/registry/recipe.h"
#include "policies/registry/registry.h"
#include "policies/registry/spec.h"
#include "sim/cli/options.h"
#include "sim/cli/python_policies.h"

namespace kvsim::cli {
namespace {

void print_line(const std::string& name, const std::string& text) {
  if (!text.empty()) std::cout << fmt::format("    {:<20} {}\n", name, text);
}

std::string spec_of(const CombinatorInfo& combinator) {
  const std::string values = Params(combinator.params).text();
  return fmt::format("POLICY+{}{}{}", combinator.name, values.empty() ? "" : ":", values);
}

void print_params(const std::vector<Param>& params) {
  for (const Param& param : params) {
    print_line(fmt::format("{}={}", param.name, param.initial),
               fmt::format("{} ({})", param.help, param.allowed()));
  }
}

void print_presets(const PolicyInfo& policy) {
  for (const Preset& preset : policy.presets) {
    const std::string name = "preset=" + preset.name;
    const std::string sets =
        preset.acausal ? "refused, as it sees the future" : Spec(policy.name + ':' + name).text();
    print_line(name, fmt::format("{} ({})", sets, preset.reproduces));
  }
}

/// The note on an oracle or a bound; empty for other policies.
std::string role_of(const PolicyInfo& policy) {
  if (policy.bounds_recall != nullptr) {
    const bool by_default = policy.bounds_recall(Params(policy.params));
    if (!by_default) return "";
    std::string bound = "a bound: at its defaults no policy retains more attention";
    if (policy.make_planner == nullptr) return bound;
    return bound +
           "; under an eviction interval, among policies that evict down to exactly the budget";
  }
  return policy.make_planner == nullptr ? "" : "a reference that sees the future, not a bound";
}

std::string aliases_of(const PolicyInfo& policy) {
  std::vector<std::string> names;
  for (const PolicyAlias& alias : policy_aliases()) {
    if (alias.policy != policy.name) continue;
    names.push_back(alias.allocation ? fmt::format("{} ({})", alias.name, alias.spec())
                                     : alias.name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

void print(const PolicyInfo& policy) {
  std::cout << Spec(policy).text() << '\n';
  print_line("keeps", policy.keeps);
  print_line("source", policy.source);
  print_line("from", policy.origin);
  print_line("also called", aliases_of(policy));
  print_line("role", role_of(policy));
  print_line("sees", policy.sees);
  print_line("needs", needs_note(policy));
  print_line("differences", policy.differences);
  print_params(policy.params);
  print_presets(policy);
}

void print(const CombinatorInfo& combinator) {
  std::cout << spec_of(combinator) << '\n';
  print_line("does", combinator.does);
  print_line("source", combinator.source);
  print_line("differences", combinator.differences);
  print_params(combinator.params);
}

void print(const AllocationInfo& allocation) {
  const std::string values = Params(allocation.params).text();
  std::cout << "POLICY@" << allocation.name << (values.empty() ? "" : ":" + values) << '\n';
  print_line("does", allocation.does);
  print_line("source", allocation.source);
  print_line("differences", allocation.differences);
  print_params(allocation.params);
}

void print_recipe() {
  std::cout << "recipe:file=PATH\n";
  print_line("stands for", "the policy in a file of YAML, as python -m kvsim.tune writes it");
  print_line("takes", "combinators and, unless it has one, a split: recipe:file=PATH+protect");
  for (const RecipeKey& key : recipe_keys()) print_line(key.name, key.help);
}

void print_markdown() {
  std::cout << "| spec | keeps | source |\n| --- | --- | --- |\n";
  for (const PolicyInfo& policy : policies()) {
    std::cout << fmt::format("| `{}` | {} | {} |\n", Spec(policy).text(), policy.keeps,
                             policy.source);
  }
  for (const CombinatorInfo& combinator : combinators()) {
    std::cout << fmt::format("| `{}` | {} | {} |\n", spec_of(combinator), combinator.does,
                             combinator.source);
  }
}

/// Prints a policy, a combinator, an allocation or what a recipe is: "h2o", "+protect", "@pyramid".
void print_named(std::string name) {
  if (name.starts_with('+') || name.starts_with('@')) name.erase(0, 1);
  if (name == kRecipe) return print_recipe();
  for (const AllocationInfo& allocation : allocations()) {
    if (allocation.name == name) return print(allocation);
  }
  for (const CombinatorInfo& combinator : combinators()) {
    if (combinator.name == name) return print(combinator);
  }
  const PolicyAlias* alias = find_alias(name);
  if (alias != nullptr) name = alias->policy;
  const bool is_known = std::any_of(policies().begin(), policies().end(),
                                    [&](const PolicyInfo& policy) { return policy.name == name; });
  const std::string packaged = is_known ? "" : packaged_policy(name);
  if (!packaged.empty()) {
    std::cout << packaged;
    return;
  }
  print(find_policy(name));
}

}  // namespace

int run_policies(const Verb& verb, const std::vector<std::string>& arguments) {
  po::options_description options("Options");
  options.add_options()("format", po::value<std::string>()->default_value("text"),
                        "text, or markdown for the table of a README");
  options.add(plugin_options());
  const auto values = parse(verb, arguments, options, {"NAME"});
  if (!values) return 0;
  const std::string format = choice_from(*values, "format", {"text", "markdown"});
  if (values->count("NAME") > 0) {
    print_named(positional_from(verb, *values, "NAME"));
  } else if (format == "markdown") {
    print_markdown();
  } else {
    for (const PolicyInfo& policy : policies()) print(policy);
    for (const CombinatorInfo& combinator : combinators()) print(combinator);
    for (const AllocationInfo& allocation : allocations()) print(allocation);
    print_recipe();
    std::cout << packaged_policies();
  }
  return 0;
}

}  // namespace kvsim::cli
