#pragma once

#include "sim/attention/rescaled_step.h"
#include "sim/kernels/tolerances.h"
#include "sim/outputs/step_attention.h"

namespace kvsim {

/// Attention to a subset of the recorded keys and values, with the weights of the full attention
/// or, where these are too small, rescaled ones.
class CachedAttention final : public MeasuredAttention {
 public:
  using MeasuredAttention::MeasuredAttention;

  void attend(int head, int row, std::span<const std::int32_t> tokens) override;
  Measurement measure(OutputDeltas& deltas) override;
  void record(CacheContents& contents) const override;

 private:
  bool is_rescaled() const { return attended_weight_ < kMinWeightSum; }

  RescaledStep rescaled_;
};

}  // namespace kvsim
