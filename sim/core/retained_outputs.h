#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "sim/core/attention.h"
#include "sim/core/cache.h"
#include "sim/core/rescued_step.h"
#include "sim/core/spanning_tree.h"
#include "sim/core/value_kernels.h"

namespace kvsim {

/// What one cache attends to during a block of steps. A replay fills it in; RetainedOutputs then
/// says how far the outputs are from those of the full cache.
struct Holding {
  TokenSet tokens;                    ///< held before the block, and those that arrive in it
  std::vector<Departure> departures;  ///< during the block, in order of their steps
  MatrixDouble weight_sum;            ///< [heads, steps]: of the weights that a step attends to

  std::vector<RescuedStep> rescued;  ///< steps with weights of their own
  MatrixDouble difference;           ///< |o - o'|, [heads, steps]; NaN where it is asked for

  /// Of a cache that has lost nothing: all differences are 0.
  void reset(int num_tokens, int num_heads, int num_steps);

  /// Null unless the step is rescued.
  const RescuedStep* find_rescued(int head, int row) const;
};

/// The outputs of all caches of one unit, computed together. Neighbouring budgets and policies hold
/// much the same tokens, so the sums for one cache are those for the most similar one plus what
/// the two do not have in common, along a minimum spanning tree. The output of the full cache is
/// one more such sum.
class RetainedOutputs {
 public:
  /// `unit` has to outlive the object.
  explicit RetainedOutputs(const Unit& unit) : unit_(unit) {}

  /// A cache that takes part in every compute(). The reference stays valid.
  Holding& add_holding();

  /// Fills in the differences asked for, and for them the outputs of the full cache if the block
  /// lacks these.
  void compute(AttentionBlock& block);

 private:
  using Sums = std::vector<double>;  // [dims of a tile, kBlockSteps]
  using StepRow = std::array<double, kBlockSteps>;

  /// What sums are multiplied by at each step.
  struct Scales {
    StepRow missing = {};
    StepRow full = {};
  };

  void compute_head(AttentionBlock& block, int head);
  void list_terms(const HeadAttention& head, int num_tokens);
  void sum_tile(int first_dim, int dims);
  void list_departures(const HeadAttention& head, const AttentionBlock& block);
  void scale_sums(const HeadAttention& head, int index);
  void use_full_output(const HeadAttention& head, int first_dim, int dims);
  void set_full_output(HeadAttention& head, int first_dim, int dims) const;
  void finish_differences(const AttentionBlock& block, int head,
                          const std::vector<StepRow>& squares);
  std::vector<StepRow> most_missing(const HeadAttention& head, int index) const;
  std::vector<StepRow> most_kept(const AttentionBlock& block, int head) const;
  StepRow kept_at_begin(const AttentionBlock& block, int head, const Holding& holding) const;
  double exact_difference(const AttentionBlock& block, int head, const Holding& holding,
                          int row) const;

  const Unit& unit_;
  std::vector<std::unique_ptr<Holding>> holdings_;

  std::optional<AlignedRows> values_;

  // Of one block. Node 0 of the tree is the cache that holds nothing, the others are those that
  // lack something. Nodes are given by what they lack, so that the sums of a nearly full cache are
  // small and exact.
  std::vector<Holding*> lacking_;
  std::vector<TokenSet> missing_;  // per node
  std::vector<TreeEdge> edges_;
  std::vector<std::vector<Term>> added_;    // per edge
  std::vector<std::vector<Term>> removed_;  // per edge
  std::vector<Sums> sums_;                  // per node: of the weighted values it lacks
  Sums nothing_;                            // zeros

  // Of one head, per lacking holding.
  std::vector<std::vector<LateTerm>> departed_;
  std::vector<Scales> scales_;
};

}  // namespace kvsim
