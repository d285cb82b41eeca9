#include "policies/interface/policy.h"

namespace kvsim {

void Policy::update(const Step& step, std::span<double> scores) {
  const Rules rules = this->rules();
  const bool full = rules.sees_full_attention;
  const auto attention = full ? step.full_attention : step.attention;
  const ScoredStep scored{step.index,
                          full ? static_cast<std::size_t>(step.index) + 1 : scores.size()};
  for (std::size_t i = 0; i < scores.size(); ++i) {
    scores[i] = next_score(*rules.score, scored, step.tokens[i], scores[i], attention[i]);
  }
}

}  // namespace kvsim
