#pragma once

#include <optional>

#include "policies/interface/estimator.h"
#include "sim/outputs/rest_entry.h"
#include "sim/outputs/slot_rotation.h"
#include "sim/outputs/step_attention.h"
#include "sim/outputs/stored_cache.h"

namespace kvsim {

/// Attention to altered keys and values, or with altered logits: kept in a store or quantised,
/// rotated to their slots, weighted by an estimator, or joined by an entry for all evicted tokens.
/// A token is altered after its own step, which sees it as recorded, and so do the steps of a
/// prompt that attends in full. The bound of Lemma B.4 does not hold.
class AlteredAttention final : public MeasuredAttention {
 public:
  /// Steps before `first_stored` see all tokens as recorded. `seed`, the user's, is for the draws
  /// of a store. Throws std::invalid_argument if the rules rotate keys and the unit has no rope
  /// parameters, and what RestEntry() throws.
  AlteredAttention(ReplayedUnit& unit, const Rules& rules, int first_stored,
                   std::uint64_t seed = 0);

  void attend(int head, int row, std::span<const std::int32_t> tokens) override;

  /// The output estimate sum(numerator e^l v) / (e^s + sum(denominator e^l)) over `entries`, with
  /// logits l, values v, and s the sink's, if there is one. Recall counts the entries with a value.
  /// Leaves no weights for add_to_mean().
  void estimate(int head, int row, std::span<const Entry> entries);

  Measurement measure(OutputDeltas& deltas) override;
  Eigen::VectorXd output() const override { return output_; }
  void settle(std::span<const std::int32_t> held, bool is_whole) override;
  std::optional<std::size_t> peak_bytes() const override;

 private:
  float logit(int head, std::span<const std::int32_t> tokens, std::size_t slot);
  float stored_logit(int head, std::int32_t token, int shift);
  float capped(float product) const;
  float weigh_evicted(int head);
  struct Weights {
    double offset;
    double sum;
  };
  Weights weigh(int head, std::span<const std::int32_t> tokens, float least_offset);
  bool is_stored(std::int32_t token) const;
  const float* value_of(std::int32_t token) const;

  int first_stored_;
  const StoredUnit* stored_ = nullptr;  // null: as recorded
  std::optional<SlotRotation> rotation_;
  std::optional<RestEntry> rest_;
  std::optional<StoredCache> cache_;
  std::vector<float> evicted_weight_;  // of the evicted tokens that cache_ keeps; logits at first
  std::vector<std::int32_t> entry_tokens_;
  std::vector<std::int32_t> value_tokens_;  // of the entries with a value
  Eigen::VectorXd output_;
};

}  // namespace kvsim
