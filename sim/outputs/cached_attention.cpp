#include "sim/outputs/cached_attention.h"

#include <limits>

#include "sim/outputs/output_difference.h"

namespace kvsim {

void CachedAttention::attend(int head, int row, std::span<const std::int32_t> tokens) {
  begin(head, row, tokens);
  weight_sum_ = attended_weight_;
  if (!is_rescaled()) return;
  rescaled_.head = head;
  rescaled_.row = row;
  rescaled_.tokens.assign(tokens.begin(), tokens.end());
  rescale_weights(unit_, full_->logit.row(row).data(), step_, rescaled_);
  weight_ = rescaled_.weight;
  weight_sum_ = rescaled_.weight_sum;
}

Measurement CachedAttention::measure(OutputDeltas& deltas) {
  Measurement result = measure_recall();
  if (!is_missing_any() || !takes_error()) return result;
  const AttentionBlock& block = replayed_.block();
  const Eigen::VectorXd difference =
      is_rescaled() ? output_difference(unit_, full_->output.row(row_).transpose(), rescaled_)
                    : output_difference(unit_, block, head_, row_, tokens_, attended_weight_);
  set_error(difference.norm(), block, head_, row_, result);
  deltas.set(head_, row_, difference);
  return result;
}

void CachedAttention::record(CacheContents& contents) const {
  contents.weight_sum(head_, row_) = attended_weight_;
  if (!is_missing_any() || !takes_error()) return;
  contents.difference(head_, row_) = std::numeric_limits<double>::quiet_NaN();
  if (is_rescaled()) contents.rescaled.push_back(rescaled_);
}

}  // namespace kvsim
