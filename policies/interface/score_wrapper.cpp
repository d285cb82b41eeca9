#include "policies/interface/score_wrapper.h"

#include <algorithm>
#include <string>
#include <utility>

namespace kvsim {

ScoreWrapper::ScoreWrapper(std::unique_ptr<Policy> inner, const Rules& rules, int budget)
    : inner_(std::move(inner)), rules_(rules) {
  // The first tokens take precedence over the newest, as in the cache.
  const int most = rules.bounded ? budget : std::max(rules.protect_first, 0);
  const int first = std::min(rules.protect_first, most);
  const int newest =
      rules.bounded ? std::min(rules.protect_newest, budget - first) : rules.protect_newest;
  protected_first_ = static_cast<std::size_t>(first);
  protected_newest_ = static_cast<std::size_t>(newest);
}

void ScoreWrapper::update(const Step& step, std::span<double> scores) {
  own_.resize(static_cast<std::size_t>(step.index) + 1, 0);
  taken_.resize(step.tokens.size());
  for (std::size_t i = 0; i < taken_.size(); ++i) {
    taken_[i] = own_[static_cast<std::size_t>(step.tokens[i])];
  }
  inner_->update(shown(step), taken_);
  for (std::size_t i = 0; i < taken_.size(); ++i) {
    own_[static_cast<std::size_t>(step.tokens[i])] = taken_[i];
    taken_[i] = inner_->published(taken_[i]);
  }
  change(step, taken_, scores);
}

SlotRange ScoreWrapper::candidates(std::size_t size) const {
  const std::size_t end = size - std::min(size, protected_newest_);
  return {std::min(protected_first_, end), end};
}

void leave_rule(Rules& rules) {
  if (rules.score) rules.wrapped_score = rules.score;
  rules.score.reset();
}

std::string why_no_scores(const PolicyInfo& policy, const Rules& rules) {
  if (policy.make_estimator != nullptr) return "an estimator scores no tokens";
  if (rules.selects) return "it evicts nothing, it selects";
  if (!rules.bounded && !rules.prunes) return "it evicts nothing";
  if (policy.follows_schedule) return "a schedule says when each token leaves, it has no scores";
  if (policy.make_planner != nullptr) return "an oracle plans evictions, it has no scores";
  if (rules.scope == Scope::model) return "one score of it is of all layers";
  return "";
}

}  // namespace kvsim
