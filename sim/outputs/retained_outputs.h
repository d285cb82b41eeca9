#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "sim/attention/attention.h"
#include "sim/attention/rescaled_step.h"
#include "sim/cache/cache.h"
#include "sim/outputs/output_deltas.h"
#include "sim/outputs/tree_sums.h"

namespace kvsim {

/// The tokens and weights of one cache during a block of steps, which a replay fills in, and the
/// differences of its outputs from those of the full cache, which RetainedOutputs fills in.
struct CacheContents {
  explicit CacheContents(const Unit& unit) : deltas(unit) {}

  TokenSet tokens;                  ///< held before the block or arriving in it
  std::vector<Eviction> evictions;  ///< during the block, in the order of the steps
  MatrixDouble weight_sum;          ///< [heads, steps]: of the weights attended to and the sink's

  std::vector<RescaledStep> rescaled;  ///< steps with rescaled weights
  MatrixDouble difference;             ///< |o - o'|, [heads, steps]; NaN requests it
  OutputDeltas deltas;                 ///< o - o', with the same requests

  /// Sets no tokens, no evictions, and weight sums and differences of 0.
  void reset(int num_tokens, int num_heads, int num_steps);

  /// Null unless the step is rescaled.
  const RescaledStep* find_rescaled(int head, int row) const;
};

/// Computes the outputs of all caches of one unit together, as TreeSums: neighbouring budgets and
/// policies hold similar tokens. The output of the full cache is one such sum.
class RetainedOutputs {
 public:
  /// `unit` has to outlive the object.
  explicit RetainedOutputs(const Unit& unit) : unit_(unit) {}

  /// Adds a cache to every later compute(). The reference stays valid.
  CacheContents& add_cache();

  /// Fills in the requested differences, and the outputs of the full cache if they are missing.
  void compute(AttentionBlock& block);

 private:
  using StepRow = std::array<double, kBlockSteps>;

  /// Per step, of the weights that a cache keeps; see scale_sums().
  struct alignas(kCacheLine) Scales {
    StepRow kept = {};
    StepRow inverse_kept = {};
    StepRow missing_share = {};
  };

  enum class Held { at_both, at_either };

  void compute_head(AttentionBlock& block, int index);
  std::vector<double> mean_missing_share(const AttentionBlock& block) const;
  void list_evictions(const AttentionBlock& block);
  void scale_sums(const HeadAttention& head, int index);
  void use_full_output(const HeadAttention& head, int first_dim, int dims);
  void set_full_output(HeadAttention& head, int first_dim, int dims);
  void finish_differences(const AttentionBlock& block, int index,
                          const std::vector<StepRow>& squares);
  std::vector<StepRow> max_missing_share(const AttentionBlock& block, int index) const;
  std::vector<StepRow> max_kept_share(const AttentionBlock& block, int index) const;
  StepRow kept_share(const AttentionBlock& block, int index, const CacheContents& contents,
                     Held held) const;
  Eigen::VectorXd exact_difference(const AttentionBlock& block, int index,
                                   const CacheContents& contents, int row) const;

  const Unit& unit_;
  std::vector<std::unique_ptr<CacheContents>> caches_;

  std::optional<ValuePanels> values_;

  // Of one block. A node of the tree is the set of tokens that a cache misses, so that the sums of
  // a nearly full cache are small and accurate. Node 0 is the empty cache, which misses all tokens;
  // node i + 1 is incomplete_[i].
  std::vector<CacheContents*> incomplete_;  // caches with requested differences
  std::vector<TokenSet> missing_;           // per node
  TreeSums sums_;                           // per node: weighted values of its missing tokens

  std::vector<std::vector<EvictedTerm>> evicted_terms_;  // parallel to incomplete_

  // Of one head, parallel to incomplete_.
  std::vector<Scales> scales_;
};

}  // namespace kvsim
