#include "policies/spec.h"

#include <fmt/format.h>

#include <algorithm>

#include "policies/errors.h"

namespace kvsim {
namespace {

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

}  // namespace

Spec::Spec(std::string_view text)
    : policy_(&find_policy(text.substr(0, text.find(':')))), params_(policy_->params) {
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) return;
  const std::string owner = "policy " + policy_->name;
  for (std::string_view part : split(text.substr(colon + 1), ',')) {
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos) {
      throw UsageError(fmt::format("{}: '{}' is not of the form key=value", owner, part));
    }
    params_.set(part.substr(0, equals), part.substr(equals + 1), owner);
  }
}

std::string Spec::text() const {
  const std::string values = params_.text();
  return values.empty() ? policy_->name : policy_->name + ':' + values;
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
