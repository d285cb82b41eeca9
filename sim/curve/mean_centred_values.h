#pragma once

#include <Eigen/Core>

#include "sim/kernels/aligned_rows.h"
#include "sim/kernels/weighted_sum_kernels.h"
#include "traces/unit.h"

namespace kvsim {

/// In: the values of a unit. Out: (value - mean) / scale in fp32, [n, stride], padded by zeros. The
/// mean cancels in differences of outputs; without it sums are smaller and so is their rounding.
class MeanCentredValues {
 public:
  /// The norm of the longest row: squares of sums with weights of 1e-30 then do not underflow.
  static constexpr double kLongestNorm = 0x1p40;

  explicit MeanCentredValues(const Unit& unit);

  double scale() const { return scale_; }
  std::size_t stride() const { return stride_; }
  const Eigen::RowVectorXd& mean() const { return mean_; }

  WeightedTokens weighted(std::span<const std::int32_t> tokens, const float* weight) const {
    return {rows_.row(0), stride_, tokens, weight};
  }
  const float* row(std::int32_t token) const { return rows_.row(token); }
  /// The value of a learned sink, which is 0 before the mean is subtracted: [value_dim]. In fp64,
  /// since with a sink with most of the attention the output is next to it.
  const Eigen::RowVectorXd& sink() const { return sink_; }

  /// Writes (value - mean) / scale to `to`, [stride].
  void convert(const Eigen::RowVectorXd& value, float* to) const;

 private:
  Eigen::RowVectorXd mean_;
  double scale_;
  std::size_t stride_;
  AlignedRows rows_;
  Eigen::RowVectorXd sink_;
};

}  // namespace kvsim
