#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analysis/analysis.h"
#include "sim/base/interrupt.h"

namespace kvsim {

/// Full attention of one query head at one step.
struct AttentionRow {
  int head;           ///< query head within the unit's group
  int step;           ///< t
  int first_visible;  ///< first token inside the layer's sliding window and chunk
  const std::vector<std::int32_t>& visible;  ///< the tokens that t sees, ascending
  const HeadAttention& block;
  int row;  ///< of the block

  /// exp(l[t,j] - max_j l[t,j]) of tokens j = 0 .. t, the maximum including a learned sink.
  std::span<const float> weight() const {
    return {block.weight.row(row).data(), static_cast<std::size_t>(step) + 1};
  }
  double sink_weight() const { return block.sink_weight[row]; }
  double weight_sum() const { return block.weight_sum[row]; }  ///< with the sink's
  /// a[t,j].
  double attention(int token) const { return block.weight(row, token) / block.weight_sum[row]; }
};

/// An analysis that reads the attention row by row: within a block head by head, and the steps of a
/// head in order.
class RowAnalysis : public Analysis {
 public:
  explicit RowAnalysis(const Subject& subject) : subject_(subject) {}

  void add(const AttentionBlock& block) final {
    std::vector<std::vector<std::int32_t>> visible;
    for (int row = 0; row < block.num_steps; ++row) {
      visible.push_back(visible_tokens(subject_.unit, block.first_step + row));
    }
    for (int head = 0; head < subject_.unit.group_size(); ++head) {
      for (int row = 0; row < block.num_steps; ++row) {
        poll_interrupt();
        const int step = block.first_step + row;
        add_row(
            {head, step, first_visible(subject_.unit, step), visible[row], block.heads[head], row});
      }
    }
  }

 protected:
  virtual void add_row(const AttentionRow& row) = 0;

  const Unit& unit() const { return subject_.unit; }
  const Subject& subject() const { return subject_; }

 private:
  const Subject& subject_;
};

}  // namespace kvsim
