#include <fmt/format.h>

#include <algorithm>

#include "policies/registry/recipe.h"
#include "policies/registry/spec.h"
#include "sim/base/errors.h"

namespace kvsim {

Spec Spec::stored(std::string_view text) {
  if (is_recipe(text)) {
    throw UsageError(
        fmt::format("'{}' is no policy of a row: rows name what a recipe holds", text));
  }
  return Spec(text);
}

// What is added to `recipe:file=PATH` is added to the policy that the recipe names.
Spec Spec::of_recipe(std::string_view text) {
  const std::string_view first = text.substr(0, text.find_first_of("+@"));
  const std::string_view added = text.substr(first.size());
  const std::size_t colon = first.find(':');
  const Recipe recipe =
      read_recipe(colon == std::string_view::npos ? std::string_view() : first.substr(colon + 1));
  Spec own = of_file(recipe);
  if (added.empty()) return own;
  const std::string_view combinators = added.substr(0, added.find('@'));
  const std::string_view split = added.substr(combinators.size());
  if (!split.empty() && own.allocation_) {
    throw UsageError(fmt::format("recipe {} splits the budget itself, by {}; leave '{}' out",
                                 recipe.file, own.allocation_->text(), split));
  }
  const std::string whole = own.text();
  const std::size_t at = std::min(whole.find('@'), whole.size());
  const std::string own_split = whole.substr(at);
  Spec spec(whole.substr(0, at) + std::string(combinators) + own_split + std::string(split),
            AsWritten());
  spec.allocation_ = split.empty() ? own.allocation_ : spec.allocation_;
  return spec;  // the recipe's name is not of this policy
}

// The policy of the recipe, with the paths of its files as they are from here.
Spec Spec::of_file(const Recipe& recipe) {
  try {
    Spec spec(recipe.policy, AsWritten());
    if (spec.policy_->reads_file()) {
      spec.params_.set("file", recipe.from_here(spec.file()), "policy " + spec.policy_->name);
    }
    if (spec.allocation_ && spec.allocation_->reads_file()) {
      spec.allocation_->set("file", recipe.from_here(spec.allocation_->file()));
    }
    spec.alias_.clear();
    return spec.labelled(recipe.name);
  } catch (const UsageError& error) {
    throw DataError(fmt::format("recipe {}: policy: {}", recipe.file, error.what()));
  }
}

}  // namespace kvsim
