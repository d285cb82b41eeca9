#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "policies/interface/policy.h"
#include "sim/outputs/measurement.h"
#include "sim/outputs/replayed_unit.h"

namespace kvsim {

/// Attention of one query head at one step over the tokens that a cache holds.
class StepAttention {
 public:
  virtual ~StepAttention() = default;

  /// Computes the attention of query head `head` at row `row` of the unit's block over `tokens`:
  /// ascending, the last one being the step of the row.
  virtual void attend(int head, int row, std::span<const std::int32_t> tokens) = 0;

  /// Adds the softmax weights, divided by `num_heads`, to `mean`, which is parallel to the tokens.
  void add_to_mean(double num_heads, std::vector<float>& mean) const;

 protected:
  std::vector<float> weight_;  // exp(logit - offset) of each token
  double weight_sum_ = 0;      // of these and of the sink
};

/// Attention over the tokens of a cache, compared with the full attention.
class MeasuredAttention : public StepAttention {
 public:
  explicit MeasuredAttention(const ReplayedUnit& unit)
      : replayed_(unit), unit_(unit.unit()), gathered_(unit.unit().query.size()) {}

  /// All query heads are about to attend at row `row` over `tokens`, which must not change until
  /// they have. Without this call they take longer: the sums of one head wait for themselves, those
  /// of several do not.
  void gather(int row, std::span<const std::int32_t> tokens);

  /// Call after attend(). Sets the step's difference in `deltas`, which begins the block as 0.
  virtual Measurement measure(OutputDeltas& deltas) = 0;

  /// The output of the cache, [value_dim]. Call after attend().
  virtual Eigen::VectorXd output() const;

  /// A measurement without error and bound. Call after attend().
  Measurement measure_recall() const;

  /// Records what RetainedOutputs needs for the error of this step. Call after attend().
  virtual void record(CacheContents&) const {}

  /// The step has ended, for which attend() was called for all query heads, and the cache keeps
  /// `held`. `is_whole`: StoredStep::is_whole.
  virtual void settle(std::span<const std::int32_t> /*held*/, bool /*is_whole*/) {}

  /// The largest size of the cache after a measured step, if it is not its tokens times their size.
  virtual std::optional<std::size_t> peak_bytes() const { return std::nullopt; }

 protected:
  /// Sets the step and weight_, the weights of `tokens` in the full attention, and sums these.
  void begin(int head, int row, std::span<const std::int32_t> tokens);

  bool is_missing_any() const;
  /// Whether the step sees a token up to its own.
  bool sees(std::int32_t token) const {
    return token >= first_visible_ &&
           (selected_.empty() || std::ranges::binary_search(selected_, token));
  }
  bool takes_error() const { return replayed_.takes_error(step_); }
  void add_value(double weight, const float* value);

  const ReplayedUnit& replayed_;
  const Unit& unit_;
  const HeadAttention* full_ = nullptr;
  int head_ = 0;
  int row_ = 0;
  int step_ = 0;
  int first_visible_ = 0;
  std::span<const std::int32_t> selected_;  // by the step; empty: all
  std::span<const std::int32_t> tokens_;
  double attended_weight_ = 0;  // sum of the weights of tokens_ and the sink in the full attention
  Eigen::VectorXd sum_;         // of weighted values, [value_dim]

 private:
  /// The weights of a query head in the full attention.
  struct Gathered {
    std::vector<float> weight;  ///< per token attended to
    double sum = 0;             ///< of these and of the sink
    int num_pivotal = 0;        ///< of these
  };

  template <int kHeads>
  void gather_heads(int first_head, int row, std::span<const std::int32_t> tokens);

  std::vector<Gathered> gathered_;               // per query head
  int gathered_step_ = -1;                       // of gather()
  std::span<const std::int32_t> gathered_from_;  // its tokens
};

/// CachedAttention if the rules attend to keys and values as recorded, else AlteredAttention, for
/// which see `first_stored` and `seed`. Throws as AlteredAttention.
std::unique_ptr<MeasuredAttention> make_measured_attention(ReplayedUnit& unit, const Rules& rules,
                                                           int first_stored, std::uint64_t seed);

}  // namespace kvsim
