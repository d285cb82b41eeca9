#pragma once

#include "sim/core/attention_kernels.h"
#include "sim/core/step_attention.h"

namespace kvsim {

/// Attention to the tokens that a cache holds, computed from their keys: without the full attention
/// beside it, a step takes time for what is held and not for the text. For keys as recorded.
class ResidentAttention final : public StepAttention {
 public:
  explicit ResidentAttention(const ReplayedUnit& unit);

  void attend(int head, int row, std::span<const std::int32_t> tokens) override;

 private:
  void hold(std::span<const std::int32_t> tokens);

  const ReplayedUnit& replayed_;
  const Unit& unit_;
  KeyPanels keys_;                   // of the held tokens, each at its place
  std::vector<std::int32_t> held_;   // tokens, ascending
  std::vector<std::int32_t> place_;  // parallel to them
  std::vector<std::int32_t> free_;   // places of what has left
  std::vector<float> by_place_;      // logits
  std::vector<float> logit_;         // parallel to the held tokens
};

}  // namespace kvsim
