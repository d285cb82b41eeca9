#include "sim/outputs/score_gradients.h"

#include "sim/kernels/value_kernels.h"

namespace kvsim {

void ScoreGradients::read_block(int first_step, int num_steps) {
  const Eigen::Index value_dim = unit_.value.cols();
  samples_.resize(unit_.output_score_grad.size());
  for (std::size_t sample = 0; sample < samples_.size(); ++sample) {
    samples_[sample].setZero(unit_.group_size() * value_dim, kBlockSteps);
    for (int head = 0; head < unit_.group_size(); ++head) {
      samples_[sample].block(head * value_dim, 0, value_dim, num_steps) =
          unit_.output_score_grad[sample][head].middleRows(first_step, num_steps).transpose();
    }
  }
}

MatrixDouble ScoreGradients::predicted_kl(const OutputDeltas& deltas) const {
  const auto value_dim = static_cast<int>(unit_.value.cols());
  MatrixDouble nats = MatrixDouble::Zero(unit_.group_size(), kBlockSteps);
  for (const Matrix& gradient : samples_) {
    for (int head = 0; head < unit_.group_size(); ++head) {
      Eigen::Array<double, 1, kBlockSteps> product;
      multiply_columns(gradient.row(head * value_dim).data(),
                       deltas.rows().row(head * value_dim).data(), value_dim, product.data());
      nats.row(head).array() += product.square();
    }
  }
  return nats / (2.0 * static_cast<double>(samples_.size()));
}

}  // namespace kvsim
