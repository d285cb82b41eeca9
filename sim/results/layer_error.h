#pragma once

#include <optional>

#include "sim/results/result.h"

namespace kvsim {

/// The errors of a layer's output under one policy: sums over its heads, means over the measured
/// steps.
struct LayerError {
  /// |sum over heads h of (o'_h - o_h) W_O,h|²; empty without recorded projections.
  std::optional<double> projected_error;
  /// projected_error over the mean of |residual|²; empty without a recorded residual stream.
  std::optional<double> projected_error_relative;
  /// Nats per token; empty without recorded gradients.
  std::optional<double> predicted_kl;
  int num_layers = 0;  ///< of the model that have a cache; the sweep fills it in
};

/// A row of the table `layer_error`. `row` is that of one of the layer's units, whose key and
/// provenance are those of the layer but for the KV head.
struct LayerErrorRow {
  Result row;
  LayerError error;
};

/// The predicted KL above which it is only indicative, in nats per token and over all layers: it is
/// the first term of a series in small changes.
inline constexpr double kPredictedKlLimit = 0.3;

}  // namespace kvsim
