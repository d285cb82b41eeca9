#pragma once

#include <optional>

#include "policies/estimator.h"
#include "sim/core/slot_rotation.h"
#include "sim/core/step_attention.h"

namespace kvsim {

/// Attention to keys and values that are not the recorded ones, or not with their recorded logits:
/// quantised, rotated to their slots, or weighted by an estimator. A token is quantised as it is
/// stored, so its own step still sees it as recorded, and so do the steps of a prompt that attends
/// in full. Lemma B.4 does not apply.
class AlteredAttention final : public MeasuredAttention {
 public:
  /// Steps before `first_stored` attend in full. Throws std::invalid_argument if keys are to be
  /// rotated and the unit does not say how.
  AlteredAttention(ReplayedUnit& unit, const Rules& rules, int first_stored);

  void attend(int head, int row, std::span<const std::int32_t> tokens) override;

  /// The estimate sum(w e^l v) / sum(u e^l) over entries. Recall counts the tokens whose values are
  /// held; attention() means nothing.
  void estimate(int head, int row, std::span<const Entry> entries);

  Measurement measure() override;

 private:
  float logit(int head, std::span<const std::int32_t> tokens, std::size_t slot);
  double weigh(int head, std::span<const std::int32_t> tokens);
  bool is_stored(std::int32_t token) const;
  const Matrix& value_of(std::int32_t token) const;

  int first_stored_;
  const StoredUnit* stored_ = nullptr;  // null: as recorded
  std::optional<SlotRotation> rotation_;
  std::vector<std::int32_t> entry_tokens_;
  std::vector<std::int32_t> value_tokens_;  // of the entries, those with a value
  Eigen::VectorXd output_;
};

}  // namespace kvsim
