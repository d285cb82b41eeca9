#pragma once

#include <vector>

#include "sim/outputs/output_deltas.h"

namespace kvsim {

/// The recorded gradients g of a unit at the steps of a block. A change delta of a head output
/// changes the predictions by KL(full || evicting) = 1/2 E (g . delta)² to second order: g g^T has
/// the Fisher information of the predictions with respect to the head output as its mean. Terms
/// between different heads and steps are left out; their mean over many steps is small.
class ScoreGradients {
 public:
  /// `unit` has to outlive the object.
  explicit ScoreGradients(const Unit& unit) : unit_(unit) {}

  /// Takes the gradients of steps first_step .. first_step + num_steps - 1.
  void read_block(int first_step, int num_steps);

  /// The predicted KL that the differences of the block cause, in nats: [heads, kBlockSteps], the
  /// mean over samples of (g . delta)² / 2.
  MatrixDouble predicted_kl(const OutputDeltas& deltas) const;

 private:
  const Unit& unit_;
  std::vector<Matrix> samples_;  // [heads * value_dim, kBlockSteps], as OutputDeltas::rows()
};

}  // namespace kvsim
