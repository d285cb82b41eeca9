#pragma once

#include <optional>

#include "sim/kernels/attention_kernels.h"
#include "sim/outputs/slot_rotation.h"
#include "sim/outputs/step_attention.h"

namespace kvsim {

/// Attention to the tokens that a cache holds, computed from their recorded keys, which under
/// Rules::slot_positions are moved to their slots. Needs no full attention, so the time of a step
/// depends on the cache size and not on the text length.
///
/// Of a unit that is read part by part it keeps the vectors of these tokens.
class ResidentAttention final : public StepAttention {
 public:
  /// Throws std::invalid_argument if the rules rotate keys and the unit has no rope parameters.
  ResidentAttention(const ReplayedUnit& unit, const Rules& rules);

  void attend(int head, int row, std::span<const std::int32_t> tokens) override;

  /// The cache holds `tokens`: ascending, those held before or of the block. Before vectors() of a
  /// step, if attend() has not been called.
  void hold(std::span<const std::int32_t> tokens);

  /// Whether it keeps vectors: those of the unit are not in memory.
  bool keeps_vectors() const { return unit_.rows != nullptr; }

  /// Recorded keys, and values if the rules ask for them, of the tokens held.
  ResidentVectors keys() const { return vectors(key_); }
  ResidentVectors values() const { return vectors(value_); }

 private:
  ResidentVectors vectors(const Matrix& rows) const {
    return {rows.data(), static_cast<std::size_t>(rows.cols()), place_};
  }
  const float* key(std::size_t slot) const;
  void hide_unselected(int step, std::span<const std::int32_t> tokens);
  void put(std::int32_t place, std::int32_t token);
  void move_keys(std::span<const std::int32_t> tokens, std::size_t first_slot);

  const ReplayedUnit& replayed_;
  const Unit& unit_;
  bool sees_values_;
  KeyPanels keys_;                   // keys of the held tokens
  std::vector<std::int32_t> held_;   // held tokens, ascending
  std::vector<std::int32_t> place_;  // in keys_, parallel to held_
  std::vector<std::int32_t> free_;   // unused places in keys_
  Matrix key_;                       // if it keeps vectors: by place, [places, head_dim]
  Matrix value_;                     // the same, [places, value_dim]
  std::optional<SlotRotation> rotation_;
  std::vector<int> distance_;  // if keys are moved: by how many positions, by place
  std::vector<float> moved_;   // one key
  std::vector<float> logit_by_place_;
  std::vector<float> logit_;  // of the visible held tokens, ascending
};

}  // namespace kvsim
