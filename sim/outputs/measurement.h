#pragma once

namespace kvsim {

/// Measurements of one query head at one step.
struct Measurement {
  double attention_loss = 0;
  int accesses = 0;         ///< pivotal tokens
  int misses = 0;           ///< pivotal tokens that the cache does not hold
  bool has_error = true;    ///< whether error and bound are measured at this step
  double error = 0;         ///< |o - o'| / |o|, o' being the output of the cache
  double squared = 0;       ///< |o - o'|²
  double predicted_kl = 0;  ///< nats, see ScoreGradients; 0 without gradients
  double bound = 0;         ///< Lemma B.4, relative to |o|
  double bound_slack = 0;   ///< by which rounding may let the error exceed the bound
};

}  // namespace kvsim
