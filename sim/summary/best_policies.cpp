#include "sim/summary/best_policies.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/summary/short_spec.h"

namespace kvsim {
namespace {

bool evicts(const Spec& policy) {
  if (policy.is_oracle() || policy.is_estimator()) return false;
  const Rules rules = policy.rules({.budget = 1});
  return rules.bounded && !rules.selects;
}

}  // namespace

std::string best_policies(const std::string& budget, const std::vector<Spec>& policies,
                          const Ranking& ranking, const PairedBootstrap& bootstrap) {
  std::vector<std::pair<double, const Spec*>> ranked;
  for (const Spec& policy : policies) {
    const auto found = ranking.values.find(policy.text());
    if (found == ranking.values.end() || !evicts(policy)) continue;
    const double mean = bootstrap.mean(found->second).value;
    ranked.emplace_back(ranking.is_loss ? mean : -mean, &policy);
  }
  if (ranked.size() < 2) return "";
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  const Spec& best = *ranked.front().second;
  if (!bootstrap.has_enough_samples()) {
    return fmt::format("at {} {}: {}; too few samples ({}) to tell it from the others\n", budget,
                       ranking.best, name_in_tables(best), bootstrap.num_samples());
  }
  std::vector<std::string> undecided;
  for (std::size_t i = 1; i < ranked.size(); ++i) {
    const Estimate lead =
        bootstrap.mean(differences(ranking.values, best.text(), ranked[i].second->text()));
    if (lead.interval->contains(0)) undecided.push_back(name_in_tables(*ranked[i].second));
  }
  return fmt::format(
      "at {} {} of the evicting policies: {}; {}\n", budget, ranking.best, name_in_tables(best),
      undecided.empty()
          ? "all others differ from it"
          : fmt::format("not distinguishable from it: {}", fmt::join(undecided, ", ")));
}

}  // namespace kvsim
