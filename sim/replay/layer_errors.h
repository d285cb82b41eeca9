#pragma once

#include <span>
#include <vector>

#include "sim/kernels/attention_kernels.h"
#include "sim/outputs/output_deltas.h"
#include "sim/protocol/measured_steps.h"
#include "sim/replay/replay.h"

namespace kvsim {

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

  /// Gives each of the outcomes, one per unit, the errors of its layer.
  void annotate(std::size_t configuration, std::span<Outcome> outcomes) const;

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
  Matrix projected_;  // of the batch: [kBlockSteps, hidden]
};

}  // namespace kvsim
