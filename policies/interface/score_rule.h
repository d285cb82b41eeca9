#pragma once

#include <cstddef>
#include <cstdint>

#include "sim/base/random_bits.h"

namespace kvsim {

/// A rule by which scores follow from a step. Engines, on the CPU and on the GPU, implement these
/// rules in their kernels, so a policy that names one needs no update() of its own and runs as fast
/// as any other.
struct ScoreRule {
  enum class Kind {
    newest,     ///< the token that has just arrived gets its score from the policy's update()
    attention,  ///< attention at this step
    sum,        ///< sum of the attention since arrival
    mean,       ///< mean attention per step since arrival
    recency,    ///< the last step that accessed the token
    frequency,  ///< the number of steps that accessed the token
    random,     ///< a new draw from `seed` at every step
    columns,    ///< the last `length` tokens, then every `length`-th one, then the most recent rest
    blocks,     ///< the current block of `length` tokens, then the last `part` of each block, then
                ///< the most recent rest

    // The rules below need more state than a score per token. An engine that does not implement one
    // calls the policy's update().
    unimportance,  ///< minus the number of the last `length` steps in which the token received
                   ///< less than an even share, 1 / (t + 1) (Scissorhands Algorithm 2)
    votes,         ///< attention of the last `length` steps, pooled over `part` neighbouring tokens
                   ///< by maximum, or by sum if `adds`; the last `length` tokens keep their
                   ///< scores (SnapKV section 4.1)
    key_difference,  ///< minus the cosine between the token's key and the mean direction of all
                     ///< keys in the cache (KeyDiff section 3)
  };

  Kind kind;
  std::uint64_t seed = 0;
  int length = 1;
  int part = 0;
  bool adds = false;
  float sign = 1;  ///< of attention in sum and mean; -1 evicts the most attended first

  bool operator==(const ScoreRule&) const = default;

  constexpr bool needs_history() const {
    return kind == Kind::unimportance || kind == Kind::votes || kind == Kind::key_difference;
  }

  /// Whether a score depends on that of the step before. If not, scores matter only at steps that
  /// evict.
  constexpr bool reads_score() const {
    return kind == Kind::newest || kind == Kind::sum || kind == Kind::mean ||
           kind == Kind::recency || kind == Kind::frequency;
  }

  constexpr bool reads_attention() const {
    return kind != Kind::newest && kind != Kind::random && kind != Kind::columns &&
           kind != Kind::blocks && kind != Kind::key_difference;
  }
};

/// What the rules read of a step.
struct ScoredStep {
  std::int32_t index;        ///< t
  std::size_t num_attended;  ///< an even share of the attention is 1 / num_attended

  /// Whether the step accesses the token, for recency and frequency: the token receives more than
  /// an even share of the attention or has just arrived.
  [[gnu::always_inline]] constexpr bool is_access(std::int32_t token, float attention) const {
    const bool exceeds_share = attention > 1 / static_cast<float>(num_attended);
    return (token == index) | exceeds_share;  // without a branch, for vectors
  }
};

/// The score of `token` after a step that gives it `attention`, by a rule that needs no other
/// state. Always inlined, because engines compile it for several instruction sets.
[[gnu::always_inline]] constexpr double next_score(const ScoreRule& rule, const ScoredStep& step,
                                                   std::int32_t token, double score,
                                                   float attention) {
  // Exceeds every position: adding it once or twice ranks a group above all others.
  const double length = step.index + 1;
  switch (rule.kind) {
    case ScoreRule::Kind::newest:
      return score;
    case ScoreRule::Kind::attention:
      return attention;
    case ScoreRule::Kind::sum:
      return score + rule.sign * attention;
    case ScoreRule::Kind::mean:
      return score + (rule.sign * attention - score) / (step.index - token + 1);
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
