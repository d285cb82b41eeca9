#pragma once

#include <cstddef>
#include <cstdint>

namespace kvsim {

/// How the scores of a policy follow from the attention of a step, for policies that need no more
/// than this. Engines of every device know these rules by heart and need not ask the policy, so a
/// new policy that names one of them is as fast as any.
struct ScoreRule {
  enum class Kind {
    newest,     ///< only the token that has just arrived gets a score, from the policy's update()
    attention,  ///< the attention of this step
    sum,        ///< attention since arrival
    mean,       ///< mean attention per step since arrival
    recency,    ///< the last step that accessed it
    frequency,  ///< the number of steps that accessed it
  };

  Kind kind;
};

/// A step as the rules see it.
struct ScoredStep {
  std::int32_t index;       ///< t
  std::size_t num_sharers;  ///< tokens among which an even share of the attention is reckoned

  /// Recency and frequency count a token as accessed at a step if it holds more than an even share
  /// of the attention, or has just arrived.
  [[gnu::always_inline]] constexpr bool is_access(std::int32_t token, float attention) const {
    const bool exceeds_share = attention > 1 / static_cast<float>(num_sharers);
    return (token == index) | exceeds_share;  // without a branch, for vectors
  }
};

/// The score of `token` after a step that pays it `attention`. Always inlined, as engines compile
/// it for several instruction sets.
[[gnu::always_inline]] constexpr double next_score(const ScoreRule& rule, const ScoredStep& step,
                                                   std::int32_t token, double score,
                                                   float attention) {
  switch (rule.kind) {
    case ScoreRule::Kind::newest:
      return score;
    case ScoreRule::Kind::attention:
      return attention;
    case ScoreRule::Kind::sum:
      return score + attention;
    case ScoreRule::Kind::mean:
      return score + (attention - score) / (step.index - token + 1);
    case ScoreRule::Kind::recency:
      return step.is_access(token, attention) ? step.index : score;
    case ScoreRule::Kind::frequency:
      return score + (step.is_access(token, attention) ? 1 : 0);
  }
  return score;
}

}  // namespace kvsim
