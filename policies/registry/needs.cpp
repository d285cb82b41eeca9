#include "policies/registry/needs.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvsim {

std::vector<std::string> names_of(const TraceNeeds& needs) {
  std::vector<std::string> names;
  if (needs.answer_spans) names.emplace_back("spans");
  if (needs.output_projection) names.emplace_back("output_projection");
  if (needs.output_score_grad) names.emplace_back("output_score_grad");
  return names;
}

std::string needs_note(const PolicyInfo& policy) {
  if (policy.needs == nullptr) return "";
  std::vector<std::string> notes = names_of(policy.needs(Params(policy.params)));
  const std::vector<std::string> always = notes;
  for (const Param& param : policy.params) {
    for (const std::string& choice : param.choices) {
      Params params(policy.params);
      params.set(param.name, choice, "policy " + policy.name);
      for (const std::string& name : names_of(policy.needs(params))) {
        if (std::find(always.begin(), always.end(), name) != always.end()) continue;
        notes.push_back(fmt::format("{} ({}={})", name, param.name, choice));
      }
    }
  }
  return fmt::format("{}", fmt::join(notes, ", "));
}

}  // namespace kvsim
