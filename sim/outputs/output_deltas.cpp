#include "sim/outputs/output_deltas.h"

namespace kvsim {

OutputDeltas::OutputDeltas(const Unit& unit) : value_dim_(static_cast<int>(unit.value.cols())) {
  if (unit.weighs_outputs()) rows_.setZero(unit.group_size() * value_dim_, kBlockSteps);
}

void OutputDeltas::reset() { rows_.setZero(); }

void OutputDeltas::set(int head, int row, const Eigen::VectorXd& difference) {
  if (!is_kept()) return;
  rows_.col(row).segment(head * value_dim_, value_dim_) = difference.cast<float>();
}

void OutputDeltas::clear(int head, int row) {
  if (!is_kept()) return;
  rows_.col(row).segment(head * value_dim_, value_dim_).setZero();
}

float* OutputDeltas::rows_of(int head, int first_dim) {
  return is_kept() ? rows_.row(head * value_dim_ + first_dim).data() : nullptr;
}

}  // namespace kvsim
