#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "policies/interface/score_rule.h"
#include "policies/interface/store.h"
#include "policies/parts/quantization.h"

namespace kvsim {

/// Recorded vectors of the resident tokens, one per slot of the cache.
class ResidentVectors {
 public:
  ResidentVectors() = default;
  /// `rows` is [tokens of the text, dim]; slot i shows row tokens[i]. Keeps references to both.
  ResidentVectors(const float* rows, std::size_t dim, std::span<const std::int32_t> tokens)
      : rows_(rows), dim_(dim), tokens_(tokens) {}

  bool empty() const { return rows_ == nullptr; }
  std::size_t dim() const { return dim_; }

  std::span<const float> operator[](std::size_t slot) const {
    return {rows_ + static_cast<std::size_t>(tokens_[slot]) * dim_, dim_};
  }

 private:
  const float* rows_ = nullptr;
  std::size_t dim_ = 0;
  std::span<const std::int32_t> tokens_;
};

/// The kind of a token, read from its text. In a trace without token text the first token is
/// special and all others are words.
enum class TokenKind : std::uint8_t { word, punctuation, special };

/// What a policy sees of one step: the cache before the eviction, never the future.
struct Step {
  int index = 0;  ///< t, counted from 0; token t has just arrived

  /// The attended set A_t: text positions of the resident tokens, ascending, the last one being t.
  std::span<const std::int32_t> tokens;

  /// Attention of step t over A_t, parallel to `tokens`: p[t,j], the mean over the query heads of
  /// their softmax over A_t, the entry of Rules::rest, evicted tokens that a store keeps, and a
  /// learned sink, which take their share.
  std::span<const float> attention;

  /// The same with the softmax over all visible tokens, a[t,j], which no evicting cache can
  /// compute. Empty unless the policy's rules ask for it.
  std::span<const float> full_attention;

  /// Recorded keys, [head_dim] each, after positional rotation. A policy shared by several KV heads
  /// sees those of the first.
  ResidentVectors keys;

  /// Recorded values, [value_dim] each; of the first KV head, as the keys. Empty unless the
  /// policy's rules ask for them.
  ResidentVectors values = {};

  /// The query of step t of each query head of that KV head, [head_dim] each, after positional
  /// rotation. Empty unless the policy's rules ask for them.
  std::span<const std::span<const float>> queries = {};

  /// Parallel to `tokens`. Empty unless the policy's rules ask for it.
  std::span<const TokenKind> kinds;

  /// The tokens up to t that the model itself selected, ascending: it attends to no others. Empty:
  /// it does not select.
  std::span<const std::int32_t> selected = {};

  int overflow = 0;  ///< tokens to evict after this step; pruning may evict more
};

/// The heads for which one policy object decides. They keep the same tokens, and `Step::attention`
/// is the mean over all their query heads.
enum class Scope {
  head,   ///< one KV head
  layer,  ///< all KV heads of a layer
  model   ///< all layers, updated layer by layer at every step. Each layer keeps its own tokens;
          ///< a token that leaves one layer leaves all later ones too (SpAtten's cascade)
};

/// How the scores that the KV heads of a layer give a token become the one by which it stays in all
/// of them or leaves all. A rank is the place of the token among the head's candidates, 1 for the
/// lowest score; equal scores share the mean of their places.
enum class JoinedScores { mean, max, mean_rank };

/// Memory that a policy needs in addition to its scores: `bytes_per_token` for each token that was
/// in the cache at each of the last `steps` steps, and `covariances` matrices of doubles,
/// [head_dim, head_dim], for each query head of a KV head.
struct Remembered {
  int steps = 0;
  std::size_t bytes_per_token = 0;
  int covariances = 0;
};

/// The properties of a policy that the engine reads before the first step.
struct Rules {
  int protect_first = 0;             ///< this many first tokens of the text are never candidates
  int protect_newest = 0;            ///< this many newest tokens are never candidates
  int drop = 1;                      ///< tokens evicted at once, repeated until the budget holds
  bool bounded = true;               ///< false: the budget does not apply, nothing is evicted
  bool sees_full_attention = false;  ///< fill Step::full_attention
  bool sees_kinds = false;           ///< fill Step::kinds
  bool sees_values = false;          ///< fill Step::values
  bool sees_queries = false;         ///< fill Step::queries
  bool sees_rotation = false;        ///< fill Context::rotation; needs a trace that has `/rope`
  bool prompt_only = false;  ///< scores the prompt alone: replayed in prefill mode with a cache
                             ///< that is cut once, after the prompt
  bool selects = false;      ///< choose what to attend to, evict nothing (see Policy)
  bool prunes = false;       ///< candidates scored minus infinity leave even while the budget holds
  bool ignores_interval = false;  ///< prunes after every step, whatever the eviction interval
  Scope scope = Scope::head;
  std::optional<JoinedScores> joined = {};  ///< with Scope::layer: each KV head scores by an object
                                            ///< of its own, and their scores are joined
  bool slot_positions = false;  ///< rotate keys to their slot in the cache, as if evicted tokens
                                ///< had never existed; needs a trace that has `/rope`
  std::optional<Quantization> stored = {};      ///< keys and values are kept quantised
  std::shared_ptr<const StoreKind> store = {};  ///< how the cache keeps keys and values; null: as
                                                ///< recorded
  bool rest = false;  ///< steps attend to one more entry, which stands for all evicted tokens
  std::optional<ScoreRule> score = {};          ///< update() computes exactly this
  std::optional<ScoreRule> wrapped_score = {};  ///< the rule of a policy whose scores a combinator
                                                ///< changes (CombinatorInfo::wrap)
  Remembered remembered = {};                   ///< for a sweep's estimate of memory

  /// Whether steps attend to the recorded keys and values with the recorded logits, so that Lemma
  /// B.4 of Scissorhands bounds the output error.
  bool is_exact() const { return !slot_positions && !stored && !store && !rest; }

  /// Whether steps attend to tokens that the policy has evicted, too.
  bool keeps_evicted() const { return store && store->keeps_evicted(); }

  /// Whether evicted tokens are joined with others, so that layers that hide tokens are refused.
  bool joins_tokens() const { return rest || (store && store->joins_tokens()); }
};

/// Decides which tokens a KV cache keeps. One object follows one replay, of one unit or of all
/// units in its scope.
///
/// The policy scores, the engine evicts: it keeps one score per resident token, passes the scores
/// to the policy at every step, and evicts the candidates with the lowest scores, the lower text
/// position first among equals. A selecting policy (Rules::selects) keeps every token: it is
/// updated before the attention of the step, sees the attention over all tokens, and the step
/// attends to its own token and the `budget` older tokens with the highest scores. If more tokens
/// are protected than the budget allows, the first tokens take precedence over the newest.
class Policy {
 public:
  virtual ~Policy() = default;

  /// Must return the same value at every call. Planning a sweep calls it on policies that never
  /// run.
  virtual Rules rules() const { return {}; }

  /// Updates the scores after the attention of one step. `scores` is parallel to `step.tokens`: the
  /// score written at the previous step, 0 for the token that has just arrived. Scores must not be
  /// NaN. The default applies Rules::score, which must then be set.
  virtual void update(const Step& step, std::span<double> scores);

  /// The score as its paper or program has it, where update() writes another number of the same
  /// order. What adds to scores, or compares them with a number, takes this one.
  virtual double published(double score) const { return score; }
};

}  // namespace kvsim
