#pragma once

#include <algorithm>
#include <limits>

#include "sim/kernels/tolerances.h"

namespace kvsim {

/// Rounding error of differences of fp64 sums, relative to the longest value.
inline constexpr double kDoubleRounding = 1e-12;

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

  constexpr bool violates_bound() const {
    return error > bound * (1 + kBoundTolerance) + bound_slack;
  }
};

/// Sets the errors and their bound (Scissorhands Lemma B.4, with the factor 2 that its proof
/// reaches and its statement leaves out). `difference` is |o - o'|, `output_norm` |o|, and
/// `longest_value` the largest |v_j| so far.
constexpr void set_error(double difference, double output_norm, double longest_value,
                         Measurement& measurement) {
  // An output of exactly 0 has no relative error; the smallest normal double keeps it finite.
  const double norm = std::max(output_norm, std::numeric_limits<double>::min());
  measurement.error = difference / norm;
  measurement.squared = difference * difference;
  measurement.bound = 2 * longest_value * measurement.attention_loss / norm;
  measurement.bound_slack = kDoubleRounding * longest_value / norm;
}

}  // namespace kvsim
