#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "policies/quantization.h"
#include "policies/score_rule.h"

namespace kvsim {

/// Recorded vectors of the resident tokens, one per slot of the cache.
class ResidentVectors {
 public:
  ResidentVectors() = default;
  /// `rows` holds one vector of `dim` numbers per token of the text; only those of `tokens` show.
  ResidentVectors(const float* rows, std::size_t dim, std::span<const std::int32_t> tokens)
      : rows_(rows), dim_(dim), tokens_(tokens) {}

  std::span<const float> operator[](std::size_t slot) const {
    return {rows_ + static_cast<std::size_t>(tokens_[slot]) * dim_, dim_};
  }

 private:
  const float* rows_ = nullptr;
  std::size_t dim_ = 0;
  std::span<const std::int32_t> tokens_;
};

/// What a token of the text is, where the trace has its text; else the first one is special and all
/// others are words.
enum class TokenKind : std::uint8_t { word, punctuation, special };

/// What a policy sees of one step: the cache before the eviction, never the future.
struct Step {
  int index = 0;  ///< t, counted from 0; token t has just arrived

  /// The attended set A_t: text positions of the resident tokens, ascending, the last one being t.
  std::span<const std::int32_t> tokens;

  /// Attention of step t over A_t, parallel to `tokens`: p[t,j], the mean over the query heads of
  /// this KV head of their softmax over A_t.
  std::span<const float> attention;

  /// The same for the softmax over all visible tokens, a[t,j]: what no evicting cache could
  /// compute. Empty unless the policy's rules ask for it.
  std::span<const float> full_attention;

  /// Keys as recorded, after positional rotation. Of one head: for a policy that is shared by
  /// several, of the first.
  ResidentVectors keys;

  /// Parallel to `tokens`. Empty unless the policy's rules ask for it.
  std::span<const TokenKind> kinds;

  int overflow = 0;  ///< how many tokens will leave after this step, unless more are pruned
};

/// Which heads one policy decides for. They keep the same tokens, and `Step::attention` is the mean
/// over the query heads of all of them.
enum class Scope {
  head,   ///< one KV head
  layer,  ///< all KV heads of a layer
  model   ///< one policy for all layers, asked layer by layer at every step. Each layer keeps its
          ///< own tokens, and what leaves one has left all later ones (SpAtten's cascade)
};

/// What a policy remembers beside its scores: so many bytes of each of the last steps and each
/// token that was in the cache then.
struct Remembered {
  int steps = 0;
  std::size_t bytes_per_token = 0;
};

/// What the engine has to know of a policy before the first step.
struct Rules {
  int protect_first = 0;             ///< this many first tokens of the text are never candidates
  int protect_newest = 0;            ///< this many newest tokens are never candidates
  int drop = 1;                      ///< tokens evicted at once, repeatedly until the budget holds
  bool bounded = true;               ///< false: the budget does not apply, nothing is evicted
  bool sees_full_attention = false;  ///< fill Step::full_attention
  bool sees_kinds = false;           ///< fill Step::kinds
  bool selects = false;              ///< see Policy: choose what to attend to, evict nothing
  bool prunes = false;  ///< candidates scored minus infinity leave even while the budget holds
  Scope scope = Scope::head;
  bool slot_positions = false;  ///< rotate keys to their slot of the cache, as if nothing between
                                ///< them had been there; needs the trace to say how to
  std::optional<Quantization> stored = {};  ///< keys and values are kept quantised
  std::optional<ScoreRule> score = {};      ///< update() does this and no more
  Remembered remembered = {};               ///< for the memory that is announced

  /// Whether what a step attends to are recorded keys and values with their recorded logits, so
  /// that Lemma B.4 of Scissorhands bounds the error.
  bool is_exact() const { return !slot_positions && !stored; }
};

/// Decides which tokens a KV cache keeps. One object follows one replay: of one unit, or of all
/// that its scope couples.
///
/// A policy scores, the engine evicts: the engine keeps one score per resident token, hands them to
/// the policy at every step, and lets the lowest-scored candidates go, the lower text position
/// first among equals. A policy whose rules say that it selects keeps every token: it is asked
/// before the attention of the step, sees what attention to all tokens would be, and the step
/// attends to itself and the `budget` older tokens with the highest scores. Protection is cut to
/// fit: of `budget` tokens the first ones come first, then the newest ones.
class Policy {
 public:
  virtual ~Policy() = default;

  /// The same whenever it is asked. Planning asks a policy that never runs.
  virtual Rules rules() const { return {}; }

  /// Updates the scores after the attention of one step. `scores` is parallel to `step.tokens`:
  /// what the policy wrote for a token at the step before, 0 for the token that has just arrived.
  /// Scores must not be NaN. Unless a policy says otherwise, they follow its score rule.
  virtual void update(const Step& step, std::span<double> scores);
};

}  // namespace kvsim
