#include "sim/outputs/layer_errors.h"

#include "sim/kernels/transpose_tile.h"

namespace kvsim {
namespace {

// by_step[s, first_dim + d] = rows[d, s]. Tiles, because a column of `rows` touches as many lines
// of the processor's cache as it has elements.
void arrange_by_step(const Matrix& rows, Eigen::Index first_dim, Matrix& by_step) {
  const Eigen::Index whole = rows.rows() / kTile * kTile;
  for (Eigen::Index d = 0; d < whole; d += kTile) {
    const float* from[kTile];
    for (int i = 0; i < kTile; ++i) from[i] = rows.row(d + i).data();
    for (int step = 0; step < kBlockSteps; step += kTile) {
      float* to[kTile];
      for (int i = 0; i < kTile; ++i) to[i] = by_step.row(step + i).data() + first_dim + d;
      transpose_tile(from, step, to, 0);
    }
  }
  const Eigen::Index rest = rows.rows() - whole;
  by_step.middleCols(first_dim + whole, rest) = rows.bottomRows(rest).transpose();
}

}  // namespace

LayerErrors::LayerErrors(std::span<const Unit> units, std::size_t num_configurations,
                         const MeasuredSteps& steps)
    : steps_(steps) {
  for (std::size_t begin = 0; begin < units.size();) {
    std::size_t end = begin + 1;
    while (end < units.size() && units[end].name.layer == units[begin].name.layer) ++end;
    layers_.push_back(make_layer(units.subspan(begin, end - begin), begin, num_configurations));
    begin = end;
  }
}

LayerErrors::Layer LayerErrors::make_layer(std::span<const Unit> units, std::size_t begin,
                                           std::size_t num_configurations) {
  const Unit& first = units.front();
  const auto value_dim = static_cast<int>(first.value.cols());
  const int dims = static_cast<int>(units.size()) * first.group_size() * value_dim;
  const int hidden = first.output_projection.empty()
                         ? 0
                         : static_cast<int>(first.output_projection.front().cols());
  Layer layer{units, begin, KeyPanels(dims, 1), hidden, std::vector<double>(num_configurations, 0)};
  std::vector<float> column(dims);
  for (int place = 0; place < hidden; ++place) {
    float* next = column.data();
    for (const Unit& unit : units) {
      for (const Matrix& head : unit.output_projection) {
        for (int d = 0; d < value_dim; ++d) *next++ = head(d, place);
      }
    }
    layer.projection.put(place, column.data());
  }
  return layer;
}

void LayerErrors::add_block(int first_step, int num_steps,
                            const std::vector<std::vector<const OutputDeltas*>>& deltas) {
  std::vector<int> rows;
  for (int row = 0; row < num_steps; ++row) {
    if (steps_.takes_error(first_step + row)) rows.push_back(row);
  }
  if (rows.empty()) return;
  num_steps_ += std::ssize(rows);
  for (Layer& layer : layers_) {
    const std::vector<double>& residual = layer.units.front().residual_square;
    for (const int row : rows) {
      if (!residual.empty()) layer.residual += residual[first_step + row];
    }
    if (layer.hidden > 0) add_differences(layer, rows, deltas);
  }
}

// Fills batches from all configurations, so that each pass over the projection serves as many
// differences as the kernel takes.
void LayerErrors::add_differences(Layer& layer, const std::vector<int>& rows,
                                  const std::vector<std::vector<const OutputDeltas*>>& deltas) {
  const Eigen::Index of_unit = deltas.front()[layer.begin]->rows().rows();
  const Eigen::Index of_layer = of_unit * std::ssize(layer.units);
  batch_.rows.resize(kBlockSteps, of_layer);
  by_step_.resize(kBlockSteps, of_layer);
  for (std::size_t configuration = 0; configuration < deltas.size(); ++configuration) {
    for (std::size_t i = 0; i < layer.units.size(); ++i) {
      const OutputDeltas& own = *deltas[configuration][layer.begin + i];
      arrange_by_step(own.rows(), static_cast<Eigen::Index>(i) * of_unit, by_step_);
    }
    for (const int row : rows) {
      if (by_step_.row(row).isZero(0)) continue;
      batch_.rows.row(std::ssize(batch_.configurations)) = by_step_.row(row);
      batch_.configurations.push_back(configuration);
      if (std::ssize(batch_.configurations) == kBlockSteps) flush(layer);
    }
  }
  flush(layer);
}

void LayerErrors::flush(Layer& layer) {
  const auto count = static_cast<int>(batch_.configurations.size());
  if (count == 0) return;
  projected_.resize(count, layer.hidden);
  layer.projection.multiply(batch_.rows.data(), count, layer.hidden, projected_.data());
  for (int row = 0; row < count; ++row) {
    layer.square[batch_.configurations[row]] += projected_.row(row).cast<double>().squaredNorm();
  }
  batch_.configurations.clear();
}

std::optional<ProjectedError> LayerErrors::error(std::size_t configuration,
                                                 std::size_t layer) const {
  const Layer& of = layers_[layer];
  if (of.hidden == 0) return {};
  ProjectedError error{.mean = of.square[configuration] / static_cast<double>(num_steps_)};
  if (!of.units.front().residual_square.empty() && of.residual > 0) {
    error.relative = of.square[configuration] / of.residual;
  }
  return error;
}

}  // namespace kvsim
