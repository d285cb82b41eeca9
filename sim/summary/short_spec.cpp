#include "sim/summary/short_spec.h"

#include <fmt/format.h>

#include <algorithm>

#include "policies/parameters/split.h"
#include "policies/registry/registry.h"
#include "sim/base/printable.h"

namespace kvsim {
namespace {

std::string without(std::string_view settings, const std::string& defaults) {
  const auto initial = split(defaults, ',');
  std::string kept;
  for (const std::string_view setting : split(settings, ',')) {
    if (std::find(initial.begin(), initial.end(), setting) != initial.end()) continue;
    kept += (kept.empty() ? ':' : ',');
    kept += setting;
  }
  return kept;
}

}  // namespace

std::string short_spec(const std::string& canonical) {
  const std::size_t at = canonical.find('@');
  std::string text;
  for (const std::string_view part : split(std::string_view(canonical).substr(0, at), '+')) {
    const std::size_t colon = part.find(':');
    const std::string_view name = part.substr(0, colon);
    const bool is_policy = text.empty();
    if (!is_policy) text += '+';
    text += name;
    if (colon == std::string_view::npos) continue;
    const Params defaults(is_policy ? find_policy(name).params : find_combinator(name).params);
    text += without(part.substr(colon + 1), defaults.text());
  }
  return at == std::string::npos ? text : text + canonical.substr(at);
}

std::string name_in_tables(const Spec& policy) {
  return printable(policy.label().empty() ? short_spec(policy.text()) : policy.label());
}

std::string legend(const std::vector<Spec>& policies) {
  std::string lines;
  for (const Spec& policy : policies) {
    if (policy.label().empty()) continue;
    lines += fmt::format("{} = {}\n", policy.label(), printable(policy.text()));
  }
  return lines;
}

}  // namespace kvsim
