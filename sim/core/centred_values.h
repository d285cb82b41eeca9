#pragma once

#include <Eigen/Core>

#include "sim/core/aligned_rows.h"
#include "sim/core/prefix_kernels.h"
#include "traces/unit.h"

namespace kvsim {

/// Values less their mean, which changes no distance between outputs but leaves less to be rounded,
/// in a unit that makes the longest kLongest long.
class CentredValues {
 public:
  /// Squares that go with weights of 1e-30 do not underflow.
  static constexpr double kLongest = 0x1p40;

  explicit CentredValues(const Unit& unit);

  double unit() const { return unit_; }
  std::size_t stride() const { return stride_; }
  const Eigen::RowVectorXd& mean() const { return mean_; }

  WeightedTokens weighted(std::span<const std::int32_t> tokens, const float* weight) const {
    return {rows_.row(0), stride_, tokens, weight};
  }
  const float* row(std::int32_t token) const { return rows_.row(token); }

  /// Puts another value into this form, [stride].
  void convert(const Eigen::RowVectorXd& value, float* to) const;

 private:
  Eigen::RowVectorXd mean_;
  double unit_;
  std::size_t stride_;
  AlignedRows rows_;
};

}  // namespace kvsim
