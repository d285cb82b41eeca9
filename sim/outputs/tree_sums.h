#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/cache/common_tokens.h"
#include "sim/cache/spanning_tree.h"
#include "sim/kernels/aligned_vector.h"
#include "sim/kernels/value_kernels.h"

namespace kvsim {

/// Sums of weighted values over many similar sets of tokens, for a block of steps. The sum of a set
/// is that of the most similar set plus the tokens by which they differ, along a minimum spanning
/// tree; what two edges of the tree have in common is summed once.
class TreeSums {
 public:
  /// Sums over as many dimensions at a time as stay in the processor's cache.
  static constexpr int kMostDims = 2 * ValuePanels::kDims;

  /// Sets to sum over, of tokens below `num_tokens`, and their weights. The sums of `roots` are
  /// given: see rows().
  void link(std::span<const TokenSet> sets, std::span<const int> roots, int num_tokens,
            std::span<const double> weights);

  /// Sums dimensions first_dim .. first_dim + dims - 1 over every set; dims <= kMostDims, and
  /// first_dim is a multiple of it.
  void sum(const WeightedValues& of, int first_dim, int dims);

  /// The sums over a set: [dims, kBlockSteps]. Those of a root are to be set before sum().
  double* rows(int set) { return sums_[set].data(); }

  /// Parents before children; a set's tokens differ little from its parent's.
  const std::vector<TreeEdge>& edges() const { return edges_; }

 private:
  // Per edge.
  struct EdgeTerms {
    std::vector<std::int32_t> added;
    std::vector<std::int32_t> removed;
    std::vector<const float*> added_sums;  // of common_sums_
    std::vector<const float*> removed_sums;
  };

  void list_terms(int num_tokens);

  std::vector<TreeEdge> edges_;
  std::vector<TokenSet> changes_;  // of edge i, those added at 2 i, those removed at 2 i + 1
  std::vector<CommonTokens> common_;
  std::vector<EdgeTerms> terms_;                         // per edge
  std::vector<std::vector<std::int32_t>> common_terms_;  // parallel to common_: tokens
  std::vector<AlignedVector<float>> common_sums_;  // parallel to common_: [kMostDims, kBlockSteps]
  std::vector<AlignedVector<double>> sums_;        // per set: [kMostDims, kBlockSteps]
  AlignedVector<double> zeros_;
};

}  // namespace kvsim
