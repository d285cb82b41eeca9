#pragma once

#include "sim/core/rescued_step.h"
#include "sim/core/step_attention.h"

namespace kvsim {

/// Attention to a subset of the recorded keys and values, derived from the weights of the full
/// attention.
class CachedAttention final : public MeasuredAttention {
 public:
  using MeasuredAttention::MeasuredAttention;

  void attend(int head, int row, std::span<const std::int32_t> tokens) override;
  Measurement measure() override;
  void note(Holding& holding) const override;

 private:
  bool is_rescued() const { return attended_ < kLeastWeightSum; }

  RescuedStep rescued_;
};

}  // namespace kvsim
