#include "policies/registry/labels.h"

#include <algorithm>

#include "policies/registry/aliases.h"
#include "policies/registry/recipe.h"
#include "policies/registry/registry.h"

namespace kvsim {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

}  // namespace

bool is_label(std::string_view text) {
  return !text.empty() && (is_letter(text.front()) || text.front() == '_') &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return is_letter(c) || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
         });
}

bool names_a_policy(std::string_view name) {
  const auto is_name_of = [&](const auto& info) { return info.name == name; };
  return name == kAllPolicies || name == kAllOracles || name == kRecipe ||
         find_alias(name) != nullptr ||
         std::any_of(policies().begin(), policies().end(), is_name_of);
}

}  // namespace kvsim
