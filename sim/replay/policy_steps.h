#pragma once

#include <memory>
#include <span>
#include <vector>

#include "policies/registry/spec.h"
#include "sim/cache/cache.h"
#include "sim/protocol/eviction_steps.h"
#include "sim/replay/head_scores.h"
#include "traces/unit.h"

namespace kvsim {

/// What a policy sees of a layer at a step, in addition to its cache. A layer here is one cache,
/// which belongs to one head or is shared by the heads of a layer of the model.
class StepSource {
 public:
  virtual ~StepSource() = default;

  /// The step attends to `tokens`. Sets each of `means`, parallel to them, to p averaged over query
  /// heads: one over all of the layer, or one per KV head over its own. May leave them empty if the
  /// policy does not read them (PolicySteps::reads_attention()).
  virtual void attend(std::size_t layer, int step, std::span<const std::int32_t> tokens,
                      std::span<std::vector<float>> means) = 0;

  /// The step has ended, and the cache holds `held`. `is_whole`: StoredStep::is_whole.
  virtual void settle(std::size_t layer, std::span<const std::int32_t> held, bool is_whole) = 0;

  /// The same as attend() for a over all visible tokens; for rules that ask for it.
  virtual void average_full_attention(std::size_t layer, int step,
                                      std::span<const std::int32_t> tokens,
                                      std::span<std::vector<float>> means) = 0;

  /// Recorded vectors that the policy sees, those of a KV head, counted within the layer: of the
  /// tokens in the cache, which are those that the step attends to.
  virtual ResidentVectors keys(std::size_t layer, std::size_t head,
                               std::span<const std::int32_t> tokens) const = 0;
  virtual ResidentVectors values(std::size_t layer, std::size_t head,
                                 std::span<const std::int32_t> tokens) const = 0;

  /// Sets `queries`: the query of each query head of that KV head at the step.
  virtual void set_queries(std::size_t layer, std::size_t head, int step,
                           std::vector<std::span<const float>>& queries) const = 0;

  /// Step::selected.
  virtual std::span<const std::int32_t> selected(std::size_t layer, int step) const = 0;
};

/// Whether the attention of a step may matter: it does not where tokens go by their positions.
bool reads_attention(const Rules& rules);

/// Runs a policy step by step on the caches that it decides for together: one, or one per layer of
/// a model. Where attention comes from is the source's matter.
class PolicySteps {
 public:
  /// `contexts` are those of the units of the first layer, `budgets` has one budget per layer. The
  /// steps may be of a text of kUnknownLength. `kinds` are those of the tokens, up to the step that
  /// runs, if the policy reads them; keeps the pointer.
  PolicySteps(const Spec& policy, std::span<const Context> contexts, std::span<const int> budgets,
              const EvictionSteps& steps, const std::vector<TokenKind>* kinds);

  const Rules& rules() const { return rules_; }
  const Cache& cache(std::size_t layer) const { return layers_[layer].cache; }
  std::size_t num_layers() const { return layers_.size(); }

  /// The most tokens held after a step, those inside the prompt left out. The entry of Rules::rest
  /// counts as one.
  std::size_t peak_tokens(std::size_t layer) const { return layers_[layer].peak_tokens; }

  /// Whether update() reads the attention over the cache.
  bool reads_attention() const { return reads_attention_; }

  /// The cache of a layer at the begin of a block; see Cache::begin_block().
  Cache& begin_block(std::size_t layer);

  /// Runs step `step` of a layer. Steps come in order, and within a step the layers.
  void run(std::size_t layer, int step, StepSource& source);

 private:
  struct Layer {
    int budget;  // of tokens
    Cache cache;
    std::size_t peak_tokens = 0;
  };

  void evict(std::size_t layer, int step, StepSource& source);
  void select(std::size_t layer, int step, StepSource& source);
  void update_scores(std::size_t layer, int step, std::span<const std::vector<float>> attention,
                     int overflow, const StepSource& source);
  bool in_prompt(int step) const { return step < steps_.first_eviction(); }

  Rules rules_;
  std::vector<std::unique_ptr<Policy>> scorers_;  // one, or one per KV head with Rules::joined
  HeadScores head_scores_;                        // of these; with one, the cache has them
  std::vector<Layer> layers_;
  EvictionSteps steps_;
  bool keeps_all_;        // no token ever leaves
  bool reads_attention_;  // see reads_attention()
  const std::vector<TokenKind>* kinds_;
  std::vector<std::int32_t> left_earlier_layers_;  // tokens evicted at this step
  // Per scorer:
  std::vector<std::vector<float>> attention_;       // mean of p, parallel to the attended tokens
  std::vector<std::vector<float>> full_attention_;  // mean of a, parallel to the cache's tokens
  std::vector<TokenKind> resident_kinds_;           // parallel to the cache's tokens
  std::vector<std::span<const float>> queries_;     // of the step, if the policy reads them
};

}  // namespace kvsim
