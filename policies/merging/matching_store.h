#pragma once

#include <memory>

#include "policies/interface/store.h"

namespace kvsim {

struct AttentionMatch {
  int queries = 16;      ///< of this many last steps
  double ridge = 0.01;   ///< see make_matching_store()
  bool has_mass = true;  ///< whether logits of held tokens are changed, too
};

/// Attention matching (Zweiger, Fu, Guo and Kim, "Fast KV Compaction via Attention Matching", arXiv
/// 2602.16284, 2026), once per step that evicts: held tokens keep their keys, and get biases and
/// values with which the queries of the last steps, q[r], find the mass and the output that they
/// find with the evicted tokens. With p[r,j] the softmax of q[r] over held and evicted tokens,
/// which may have biases from earlier steps:
///
/// - factors w[j] of held tokens: the least sum over r of (sum_j p[r,j] w[j] - 1)^2 plus
///   penalty * sum_j (w[j] - 1)^2; then those below 1e-12 are set to it, as in the authors' program
///   by default, and ln w[j] is added to the bias of token j
/// - values: with x[r,j] the softmax with these biases and y[r] the output with the evicted tokens,
///   the least sum over r of |sum_j x[r,j] v'[j] - y[r]|^2 plus penalty * sum_j |v'[j] - v[j]|^2
///
/// where the penalty is `ridge` times the mean over r of the sum of squares of p[r,j] or x[r,j].
/// A query counts with the tokens that its step saw, so those that came after it are not fitted by
/// it. If no query attends to a held token, nothing changes.
std::unique_ptr<Store> make_matching_store(const StoreContext& context,
                                           const AttentionMatch& settings);

}  // namespace kvsim
