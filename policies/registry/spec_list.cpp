#include "policies/registry/spec_list.h"

#include <fmt/format.h>

#include <algorithm>

#include "policies/parameters/grid.h"
#include "policies/registry/labels.h"
#include "sim/base/errors.h"

namespace kvsim {
namespace {

/// Splits "mine=h2o:recent=8" into "mine" and "h2o:recent=8". A '=' after a ':' belongs to a
/// parameter.
std::pair<std::string, std::string_view> split_label(std::string_view part) {
  const std::size_t equals = part.find('=');
  if (equals == std::string_view::npos || part.find_first_of(":+@{") < equals) return {"", part};
  const std::string label(part.substr(0, equals));
  const std::string_view spec = part.substr(equals + 1);
  if (!is_label(label)) {
    throw UsageError(
        fmt::format("policy '{}': expected a label of letters, digits, '_', '-' and '.' before the "
                    "'=', found '{}'; write mine=SPEC",
                    part, label));
  }
  if (names_a_policy(label)) {
    throw UsageError(fmt::format(
        "policy '{}': the label '{}' is the name of a policy; choose another", part, label));
  }
  return {label, spec};
}

std::string_view without_blanks(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) + 1 - first);
}

std::vector<Spec> specs_of(std::string_view part, const NamedSpecs& named) {
  const auto [label, text] = split_label(part);
  std::vector<Spec> specs;
  for (const std::string& one : expand_grid(text, "policy")) {
    if (one == kAllPolicies || one == kAllOracles) {
      const std::vector<Spec> of_name = one == kAllPolicies ? named.all() : named.oracles();
      specs.insert(specs.end(), of_name.begin(), of_name.end());
    } else {
      specs.emplace_back(one);
    }
  }
  if (label.empty()) return specs;
  if (specs.size() != 1) {
    throw UsageError(
        fmt::format("policy '{}': expected one spec under the label '{}', found {}; label each",
                    part, label, specs.size()));
  }
  return {specs.front().labelled(label)};
}

void check_labels_differ(const std::vector<Spec>& specs) {
  for (std::size_t i = 0; i < specs.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (specs[i].label().empty() || specs[i].label() != specs[j].label()) continue;
      throw UsageError(
          fmt::format("the label '{}' is given to {} and to {}; choose another for one",
                      specs[i].label(), specs[j].text(), specs[i].text()));
    }
  }
}

}  // namespace

NamedSpecs every_spec() {
  const auto with_role = [](bool oracle) {
    std::vector<Spec> specs;
    for (const PolicyInfo& policy : policies()) {
      if (policy.origin == "Python") continue;  // "all" is what it is for the program
      const bool is_oracle = policy.make_planner != nullptr;
      if (!policy.reads_file() && is_oracle == oracle) specs.emplace_back(policy);
    }
    return specs;
  };
  return {.all = [=] { return with_role(false); }, .oracles = [=] { return with_role(true); }};
}

std::vector<Spec> parse_specs(std::span<const std::string> lists, const NamedSpecs& named) {
  std::vector<Spec> specs;
  bool names_any = false;
  for (const std::string& list : lists) {
    for (const std::string_view written : split_outside_braces(list, ';')) {
      const std::string_view part = without_blanks(written);
      if (part.empty()) continue;
      names_any = true;
      const std::vector<Spec> of_part = specs_of(part, named);
      specs.insert(specs.end(), of_part.begin(), of_part.end());
    }
  }
  if (!names_any) throw UsageError("no policy is named; kvsim policies lists them");
  specs = each_once(std::move(specs));
  check_labels_differ(specs);
  return specs;
}

std::vector<Spec> parse_specs(std::string_view list) {
  const std::string text(list);
  return parse_specs({&text, 1}, every_spec());
}

std::vector<Spec> each_once(std::vector<Spec> specs) {
  std::vector<Spec> once;
  for (Spec& spec : specs) {
    const auto same = std::find_if(once.begin(), once.end(),
                                   [&](const Spec& other) { return other.text() == spec.text(); });
    if (same == once.end()) {
      once.push_back(std::move(spec));
    } else if (same->label().empty()) {
      *same = same->labelled(spec.label());
    } else if (!spec.label().empty() && spec.label() != same->label()) {
      throw UsageError(fmt::format("{} has two labels, '{}' and '{}'; keep one", spec.text(),
                                   same->label(), spec.label()));
    }
  }
  return once;
}

}  // namespace kvsim
