#include <fmt/format.h>

#include "sim/base/errors.h"
#include "sim/running/running_caches.h"

namespace kvsim {

void RunningCaches::add_selected(std::size_t layer, int first, const LayerRows& rows) {
  const ModelLayer& of_model = shape_.layers[layer];
  std::shared_ptr<SelectedTokens>& selected = selected_[layer];
  if (first == 0 && rows.selected != nullptr) {
    if (has_rest_ || !of_model.readers.empty()) {
      throw UsageError(
          fmt::format("{}: layer {} selects the tokens of each step, which {}; leave it out",
                      configuration_.policy.text(), of_model.index,
                      has_rest_ ? "+rest cannot follow" : "a shared cache cannot"));
    }
    selected = std::make_shared<SelectedTokens>();
    for (const auto& unit : units_of(layer)) unit->select(selected);
  }
  const int found = rows.selected == nullptr ? 0 : rows.selected->num_steps();
  const int expected = selected ? rows.count : 0;
  if (found != expected) {
    throw UsageError(fmt::format("layer {}: expected what {} steps select, found that of {}",
                                 of_model.index, expected, found));
  }
  for (int step = 0; step < found; ++step) selected->add(rows.selected->at(step));
}

}  // namespace kvsim
