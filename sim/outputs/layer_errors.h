#pragma once

#include <optional>
#include <span>
#include <vector>

#include "sim/kernels/attention_kernels.h"
#include "sim/outputs/output_deltas.h"
#include "sim/protocol/measured_steps.h"

namespace kvsim {

/// The error of a layer's output after W_O, under one configuration.
struct ProjectedError {
  /// |sum over heads h of (o'_h - o_h) W_O,h|², mean over the measured steps.
  double mean = 0;
  /// mean over the mean of |residual|²; empty without a recorded residual stream.
  std::optional<double> relative = {};
};

/// Sums the errors of the layers of some units, whose heads are all there, under every
/// configuration.
class LayerErrors {
 public:
  /// The units of a layer follow one another. They have to outlive the object.
  LayerErrors(std::span<const Unit> units, std::size_t num_configurations,
              const MeasuredSteps& steps);

  /// Adds a block of steps; `deltas` is [configuration][unit].
  void add_block(int first_step, int num_steps,
                 const std::vector<std::vector<const OutputDeltas*>>& deltas);

  std::size_t num_layers() const { return layers_.size(); }

  /// Of a layer: its units.
  std::span<const Unit> units(std::size_t layer) const { return layers_[layer].units; }

  /// Of a layer; empty without recorded projections.
  std::optional<ProjectedError> error(std::size_t configuration, std::size_t layer) const;

 private:
  struct Layer {
    std::span<const Unit> units;
    std::size_t begin;           // index of its first unit
    KeyPanels projection;        // per column of W_O: [heads * value_dim]
    int hidden;                  // columns of W_O; 0: not recorded
    std::vector<double> square;  // per configuration: sum over steps of |projected difference|²
    double residual = 0;         // sum over steps of |residual|²
  };

  /// Up to kBlockSteps differences of a layer, [heads * value_dim] each, and whose they are.
  struct Batch {
    Matrix rows;
    std::vector<std::size_t> configurations;
  };

  static Layer make_layer(std::span<const Unit> units, std::size_t begin,
                          std::size_t num_configurations);
  void add_differences(Layer& layer, const std::vector<int>& rows,
                       const std::vector<std::vector<const OutputDeltas*>>& deltas);
  void flush(Layer& layer);

  MeasuredSteps steps_;
  std::vector<Layer> layers_;
  std::int64_t num_steps_ = 0;  // measured ones so far
  Batch batch_;
  Matrix by_step_;    // differences of one configuration: [kBlockSteps, heads * value_dim]
  Matrix projected_;  // of the batch: [kBlockSteps, hidden]
};

}  // namespace kvsim
