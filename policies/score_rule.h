#pragma once

#include <cstddef>
#include <cstdint>

#include "policies/random_bits.h"

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
    random,     ///< a fresh draw from `seed`
    columns,    ///< the last `length` tokens, then every so many-th one, then the later ones
    blocks,     ///< the current block of `length` tokens, then the last `part` of each block, then
                ///< the later tokens

    // Those below remember more than a score per token: engines that do not know them ask the
    // policy.
    unimportance,    ///< minus the steps, of the last `length`, that paid it less than an even
                     ///< share of 1 / (t + 1)
    votes,           ///< attention over the last `length` steps, the most, or if `adds` the sum, of
                     ///< `part` neighbouring tokens; the last `length` tokens keep their scores
    key_difference,  ///< minus the cosine between its key and the mean direction of all held ones
  };

  Kind kind;
  std::uint64_t seed = 0;
  int length = 1;
  int part = 0;
  bool adds = false;

  constexpr bool remembers() const {
    return kind == Kind::unimportance || kind == Kind::votes || kind == Kind::key_difference;
  }

  constexpr bool reads_attention() const {
    return kind != Kind::newest && kind != Kind::random && kind != Kind::columns &&
           kind != Kind::blocks && kind != Kind::key_difference;
  }
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

/// The score of `token` after a step that pays it `attention`, by a rule that remembers no more.
/// Always inlined, as engines compile it for several instruction sets.
[[gnu::always_inline]] constexpr double next_score(const ScoreRule& rule, const ScoredStep& step,
                                                   std::int32_t token, double score,
                                                   float attention) {
  // Above all positions, and twice.
  const double length = step.index + 1;
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
    case ScoreRule::Kind::random: {
      const std::uint64_t draw = random_bits(rule.seed, static_cast<std::uint64_t>(step.index));
      return static_cast<double>(random_bits(draw, static_cast<std::uint64_t>(token)) >> 11);
    }
    case ScoreRule::Kind::columns: {
      const bool is_recent = token > step.index - rule.length;
      const bool is_column = (token + 1) % rule.length == 0;
      return token + (is_recent ? 2 * length : is_column ? length : 0);
    }
    case ScoreRule::Kind::blocks: {
      const bool is_current = token / rule.length == step.index / rule.length;
      const bool is_summary = token % rule.length >= rule.length - rule.part;
      return token + (is_current ? 2 * length : is_summary ? length : 0);
    }
    case ScoreRule::Kind::unimportance:
    case ScoreRule::Kind::votes:
    case ScoreRule::Kind::key_difference:
      break;
  }
  return score;
}

}  // namespace kvsim
