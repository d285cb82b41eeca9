#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "policies/policy.h"
#include "sim/core/metrics.h"
#include "sim/core/replayed_unit.h"

namespace kvsim {

/// Attention of one query head at one step over the tokens that a cache holds. Buffers are reused
/// from step to step.
class StepAttention {
 public:
  virtual ~StepAttention() = default;

  /// Row `row` of the unit's block for query head `head`, over `tokens` (ascending, the last one
  /// being the row's own step).
  virtual void attend(int head, int row, std::span<const std::int32_t> tokens) = 0;

  /// Adds p[t,j], parallel to the tokens, as one of `num_heads` parts of a mean.
  void add_to_mean(double num_heads, std::vector<float>& mean) const;

 protected:
  std::vector<float> weight_;  // exp(logit - offset) of each token
  double weight_sum_ = 0;
};

/// The same beside the full attention.
class MeasuredAttention : public StepAttention {
 public:
  explicit MeasuredAttention(const ReplayedUnit& unit) : replayed_(unit), unit_(unit.unit()) {}

  /// What the cache lost at this step. Call after attend().
  virtual Measurement measure() = 0;

  /// All of a measurement but error and bound.
  Measurement measure_recall() const;

  /// Notes what the error at this step follows from, where caches' outputs are computed together.
  virtual void note(Holding&) const {}

 protected:
  /// Notes what the step is, and sums up the full attention's weights of `tokens`.
  void begin(int head, int row, std::span<const std::int32_t> tokens);

  bool is_missing_any() const;
  bool takes_error() const { return replayed_.takes_error(step_); }
  void add_value(double weight, const Matrix& value, int token);

  const ReplayedUnit& replayed_;
  const Unit& unit_;
  const HeadAttention* full_ = nullptr;
  int head_ = 0;
  int row_ = 0;
  int step_ = 0;
  int first_visible_ = 0;
  std::span<const std::int32_t> tokens_;
  double attended_ = 0;  // sum of the full attention's weights of the tokens
  Eigen::VectorXd sum_;  // of weighted values
};

/// The attention that a cache under these rules computes beside the full one; steps before
/// `first_stored` attend to what is recorded.
std::unique_ptr<MeasuredAttention> make_measured_attention(ReplayedUnit& unit, const Rules& rules,
                                                           int first_stored);

}  // namespace kvsim
