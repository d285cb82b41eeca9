#pragma once

#include "sim/kernels/attention_kernels.h"
#include "sim/outputs/step_attention.h"

namespace kvsim {

/// Attention to the tokens that a cache holds, computed from their recorded keys. Needs no full
/// attention, so the time of a step depends on the cache size and not on the text length.
class ResidentAttention final : public StepAttention {
 public:
  explicit ResidentAttention(const ReplayedUnit& unit);

  void attend(int head, int row, std::span<const std::int32_t> tokens) override;

 private:
  void update_keys(std::span<const std::int32_t> tokens);

  const ReplayedUnit& replayed_;
  const Unit& unit_;
  KeyPanels keys_;                   // keys of the held tokens
  std::vector<std::int32_t> held_;   // held tokens, ascending
  std::vector<std::int32_t> place_;  // in keys_, parallel to held_
  std::vector<std::int32_t> free_;   // unused places in keys_
  std::vector<float> logit_by_place_;
  std::vector<float> logit_;  // of the visible held tokens, ascending
};

}  // namespace kvsim
