#include "sim/sweep/verify.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/attention/attention_blocks.h"
#include "sim/sweep/in_parallel.h"
#include "sim/sweep/memory.h"
#include "traces/hdf5/digest.h"

namespace kvsim {
namespace {

const LayerInfo& find_layer(const Trace& trace, const UnitName& unit) {
  const auto sequence =
      std::find_if(trace.sequences().begin(), trace.sequences().end(),
                   [&](const SequenceInfo& s) { return s.name == unit.sequence; });
  return *std::find_if(sequence->layers.begin(), sequence->layers.end(),
                       [&](const LayerInfo& layer) { return layer.index == unit.layer; });
}

/// Of the numbers of its keys and values.
std::uint64_t digest_of(const Unit& unit) {
  Digest digest;
  for (const Matrix* vectors : {&unit.key, &unit.value}) {
    digest.update(vectors->data(), static_cast<std::size_t>(vectors->size()) * sizeof(float));
  }
  return digest.value();
}

}  // namespace

double output_error(const Unit& unit, const std::vector<Matrix>& recorded, const Backend& backend) {
  const Eigen::VectorXf length = unit.value.rowwise().norm();
  double worst = 0;
  for_each_block(unit, unit.num_tokens(), backend, [&](const AttentionBlock& block) {
    for (int i = 0; i < unit.group_size(); ++i) {
      const HeadAttention& head = block.heads[i];
      const Eigen::VectorXf summed = head.weight * length.head(head.weight.cols());
      for (int row = 0; row < block.num_steps; ++row) {
        const auto expected = recorded[i].row(block.first_step + row).cast<double>();
        const double difference = (head.output.row(row) - expected).norm();
        if (difference == 0) continue;
        const double error = difference * head.weight_sum[row] / double{summed[row]};
        worst =
            std::max(worst, std::isnan(error) ? std::numeric_limits<double>::infinity() : error);
      }
    }
  });
  return worst;
}

std::size_t verify_memory(const std::vector<SelectedUnit>& units, int threads) {
  std::size_t largest = 0;
  for (const SelectedUnit& unit : units) {
    ReplayShape shape = shape_of(unit);
    shape.configurations = 0;
    const std::size_t output =
        shape.group_size * shape.num_tokens * shape.value_dim * sizeof(float);
    largest = std::max(largest, replay_memory(shape) + output);
  }
  return largest * std::min(static_cast<std::size_t>(std::max(1, threads)), units.size());
}

std::vector<LayerCheck> verify(const Trace& trace, const Selection& selection,
                               const Backend& backend, int threads) {
  const std::vector<SelectedUnit> units = select_units(trace, selection);
  std::vector<double> errors(units.size(), 0);
  std::vector<std::uint64_t> digests(units.size());
  const std::atomic<bool> interrupted = false;
  in_parallel(units.size(), threads, interrupted, [&](std::size_t i) {
    const Unit unit = trace.read_unit(units[i].name, {.gradients = false, .projection = false});
    digests[i] = digest_of(unit);
    if (!find_layer(trace, unit.name).has_output) return;
    errors[i] = output_error(unit, trace.read_output(unit.name), backend);
  });

  std::vector<LayerCheck> checks;
  for (std::size_t i = 0; i < units.size(); ++i) {
    const UnitName& name = units[i].name;
    if (checks.empty() || checks.back().sequence != name.sequence ||
        checks.back().layer != name.layer) {
      const LayerInfo& layer = find_layer(trace, name);
      const bool is_half = std::min({layer.key_bytes, layer.value_bytes, layer.output_bytes}) == 2;
      checks.push_back({.sequence = name.sequence,
                        .layer = name.layer,
                        .has_output = layer.has_output,
                        .worst_error = 0,
                        .limit = is_half ? 1e-2 : 1e-4});
    } else if (digests[i] == digests[i - 1]) {
      checks.back().repeats_heads = true;
    }
    checks.back().worst_error = std::max(checks.back().worst_error, errors[i]);
  }
  return checks;
}

}  // namespace kvsim
