#include "sim/sweep/whole_layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

namespace kvsim {

void mark_whole_layers(SweepPlan& plan) {
  if (!plan.request.protocol.measures()) return;
  std::map<std::tuple<std::size_t, std::string, int>, std::vector<PlannedUnit*>> layers;
  for (PlannedUnit& planned : plan.units) {
    const UnitName& name = planned.unit.name;
    layers[{planned.trace, name.sequence, name.layer}].push_back(&planned);
  }
  for (const auto& [key, units] : layers) {
    const Trace& trace = plan.traces[units.front()->trace];
    const LayerInfo& layer = layer_info(trace, units.front()->unit.name);
    if (layer.hidden == 0 && layer.gradient_samples == 0) continue;
    const bool is_whole = std::ssize(units) == layer.shape.num_kv_heads;
    if (!is_whole) ++plan.num_cut_layers;
    for (PlannedUnit* unit : units) unit->in_whole_layer = is_whole;
  }
}

int num_caches(const Trace& trace, const UnitName& unit) {
  const std::vector<LayerInfo>& layers = sequence_info(trace, unit).layers;
  const auto readers = std::ranges::count_if(
      layers, [](const LayerInfo& layer) { return layer.kv_from.has_value(); });
  return trace.header().num_layers - static_cast<int>(readers);
}

std::string note_of_cut_layers(const SweepPlan& plan) {
  if (plan.num_cut_layers == 0) return "";
  return fmt::format(
      "{} without all KV heads {} no row in the table layer_error",
      plan.num_cut_layers == 1 ? "1 layer" : fmt::format("{} layers", plan.num_cut_layers),
      plan.num_cut_layers == 1 ? "gets" : "get");
}

}  // namespace kvsim
