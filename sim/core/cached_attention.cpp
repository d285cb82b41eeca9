#include "sim/core/cached_attention.h"

#include <limits>

#include "sim/core/output_difference.h"

namespace kvsim {

void CachedAttention::attend(int head, int row, std::span<const std::int32_t> tokens) {
  begin(head, row, tokens);
  weight_sum_ = attended_;
  if (!is_rescued()) return;
  rescued_.head = head;
  rescued_.row = row;
  rescued_.tokens.assign(tokens.begin(), tokens.end());
  rescue_weights(full_->logit.row(row).data(), first_visible_, rescued_);
  weight_ = rescued_.weight;
  weight_sum_ = rescued_.weight_sum;
}

Measurement CachedAttention::measure() {
  Measurement result = measure_recall();
  if (!is_missing_any() || !takes_error()) return result;
  const AttentionBlock& block = replayed_.block();
  const double difference =
      is_rescued() ? output_difference(unit_, full_->output.row(row_).transpose(), rescued_)
                   : output_difference(unit_, block, head_, row_, tokens_, attended_);
  set_error(difference, block, head_, row_, result);
  return result;
}

void CachedAttention::note(Holding& holding) const {
  holding.weight_sum(head_, row_) = attended_;
  if (!is_missing_any() || !takes_error()) return;
  holding.difference(head_, row_) = std::numeric_limits<double>::quiet_NaN();
  if (is_rescued()) holding.rescued.push_back(rescued_);
}

}  // namespace kvsim
