#include "sim/core/verify.h"

#include <algorithm>
#include <exception>

#include "sim/core/replay.h"

namespace kvsim {
namespace {

double worst_error(const Unit& unit, const std::vector<Matrix>& recorded, const Backend& backend) {
  const auto pass = backend.attend(unit);
  const int block_steps = steps_per_block(unit.num_tokens(), unit.group_size());
  AttentionBlock block;
  double worst = 0;
  for (int step = 0; step < unit.num_tokens(); step += block_steps) {
    pass->compute(step, std::min(block_steps, unit.num_tokens() - step), block);
    for (int head = 0; head < unit.group_size(); ++head) {
      for (int row = 0; row < block.num_steps; ++row) {
        const auto expected = recorded[head].row(step + row).cast<double>();
        const double difference = (block.heads[head].output.row(row) - expected).norm();
        if (difference > 0) worst = std::max(worst, difference / expected.norm());
      }
    }
  }
  return worst;
}

const LayerInfo& find_layer(const Trace& trace, const UnitName& unit) {
  const auto sequence =
      std::find_if(trace.sequences().begin(), trace.sequences().end(),
                   [&](const SequenceInfo& s) { return s.name == unit.sequence; });
  return *std::find_if(sequence->layers.begin(), sequence->layers.end(),
                       [&](const LayerInfo& layer) { return layer.index == unit.layer; });
}

}  // namespace

std::vector<LayerCheck> verify(const Trace& trace, const Selection& selection,
                               const Backend& backend, int threads) {
  const std::vector<SelectedUnit> units = select_units(trace, selection);
  const auto num_units = static_cast<std::int64_t>(units.size());
  std::vector<double> errors(units.size(), 0);
  std::vector<std::exception_ptr> failures(units.size());
#pragma omp parallel for schedule(dynamic) num_threads(threads)
  for (std::int64_t i = 0; i < num_units; ++i) {
    try {
      const Unit unit = trace.read_unit(units[i].name);
      if (!find_layer(trace, unit.name).has_output) continue;
      errors[i] = worst_error(unit, trace.read_output(unit.name), backend);
    } catch (...) {
      failures[i] = std::current_exception();
    }
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }

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
    }
    checks.back().worst_error = std::max(checks.back().worst_error, errors[i]);
  }
  return checks;
}

}  // namespace kvsim
