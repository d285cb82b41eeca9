#pragma once

#include <vector>

#include "oracle/lookahead/held_tokens.h"
#include "sim/attention/attention.h"

namespace kvsim {

/// A row per step to come and a column per slot of a cache. Steps are forgotten in the order in
/// which they came. Columns beyond the last slot are 0.
class StepsBySlots {
 public:
  /// Holds `steps` steps, a multiple of kBlockSteps, so that the rows of a block are contiguous.
  StepsBySlots(std::size_t steps, std::size_t columns)
      : steps_(steps), columns_(columns), values_(steps * columns, 0) {}

  std::size_t columns() const { return columns_; }
  double* row(int step) {
    return values_.data() + static_cast<std::size_t>(step) % steps_ * columns_;
  }
  const double* row(int step) const {
    return values_.data() + static_cast<std::size_t>(step) % steps_ * columns_;
  }

  /// Sets `count` rows to 0, which lie within a block.
  void clear(int first, int count) {
    std::fill_n(row(first), static_cast<std::size_t>(count) * columns_, 0);
  }

  /// The last of `count` slots moves to `slot`.
  void remove(std::size_t slot, std::size_t count) {
    for (std::size_t at = 0; at < values_.size(); at += columns_) {
      values_[at + slot] = values_[at + count - 1];
      values_[at + count - 1] = 0;
    }
  }

 private:
  std::size_t steps_;
  std::size_t columns_;
  std::vector<double> values_;
};

/// The outputs of one query head at steps to come, from a cache that keeps all that it holds now
/// and all that arrives until then. The weight of a token is its full attention a[t,j]; a sink
/// keeps its share.
class UpcomingOutputs {
 public:
  /// The tokens are those of `held` here and in all calls.
  UpcomingOutputs(const HeldTokens& held, std::size_t steps);

  /// Adds row `row` of a block of full attention. All its tokens that the cache has not evicted are
  /// in `held`.
  void enter(const HeldTokens& held, const AttentionBlock& block, const HeadAttention& head,
             int row);

  /// The token in `slot` has left the cache before `step`. Returns false if so little was left that
  /// the sums were computed anew.
  bool leave(const HeldTokens& held, int step, std::size_t slot);

  /// To be called before HeldTokens::remove().
  void remove(std::size_t slot, std::size_t count) { weight_.remove(slot, count); }

  std::size_t dims() const { return output_.columns(); }  ///< padded, as all vectors are
  const double* weight(int step) const { return weight_.row(step); }        ///< per slot
  double weight_sum(int step) const { return *weight_sum_.row(step); }      ///< with the sink's
  const double* numerator(int step) const { return numerator_.row(step); }  ///< [stride]
  const double* output(int step) const { return output_.row(step); }        ///< o, [stride]

  /// Computes ô, [stride]: 0 if nothing has weight.
  void cached(int step, double* cached) const;

  /// Computes ô - o, [stride].
  void error(int step, double* error) const;

  /// The same without the token in `slot`, computed from the others.
  void error_without(const HeldTokens& held, int step, std::size_t slot, double* error) const;

  /// The slots of tokens that are dominant at a step.
  std::vector<std::size_t> dominant(int step) const;

 private:
  double sum_weights(int step) const;

  StepsBySlots weight_;
  StepsBySlots sink_;        // one column
  StepsBySlots weight_sum_;  // the same
  StepsBySlots numerator_;   // columns are dimensions, as in output_
  StepsBySlots output_;
};

}  // namespace kvsim
