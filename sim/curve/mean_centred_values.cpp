#include "sim/curve/mean_centred_values.h"

#include <algorithm>
#include <cmath>

namespace kvsim {
namespace {

constexpr std::size_t kLine = kCacheLine / sizeof(float);

}  // namespace

MeanCentredValues::MeanCentredValues(const Unit& unit)
    : mean_(unit.value.cast<double>().colwise().mean()),
      stride_((static_cast<std::size_t>(unit.value.cols()) + kLine - 1) / kLine * kLine),
      rows_(static_cast<std::size_t>(unit.value.rows()), stride_) {
  double longest = unit.sink_logit.empty() ? 0 : mean_.norm();
  for (int token = 0; token < unit.value.rows(); ++token) {
    longest = std::max(longest, (unit.value.row(token).cast<double>() - mean_).norm());
  }
  scale_ = (longest > 0 ? longest : 1) / kLongestNorm;
  for (int token = 0; token < unit.value.rows(); ++token) {
    convert(unit.value.row(token).cast<double>(), rows_.row(static_cast<std::size_t>(token)));
  }
  sink_ = -mean_ / scale_;
}

void MeanCentredValues::convert(const Eigen::RowVectorXd& value, float* to) const {
  std::fill_n(to, stride_, 0.0F);
  Eigen::Map<Eigen::RowVectorXf>(to, value.size()) = ((value - mean_) / scale_).cast<float>();
}

}  // namespace kvsim
