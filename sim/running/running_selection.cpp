#include <fmt/format.h>

#include <numeric>

#include "sim/base/errors.h"
#include "sim/running/running_caches.h"

namespace kvsim {
namespace {

/// A step that sees all tokens up to itself.
void add_all(SelectedTokens& selected) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(selected.num_steps()) + 1);
  std::iota(tokens.begin(), tokens.end(), 0);
  selected.add(tokens);
}

}  // namespace

void RunningCaches::check_selects(const ModelLayer& layer, const LayerRows& rows) const {
  if (rows.selected->num_steps() != rows.count) {
    throw UsageError(fmt::format("layer {}: expected what {} steps select, found that of {}",
                                 layer.index, rows.count, rows.selected->num_steps()));
  }
  if (!joining_.empty()) {
    throw UsageError(fmt::format(
        "{}: layer {} selects the tokens of each step, and evicted ones are joined with "
        "others; leave {} out",
        configuration_.policy.text(), layer.index, joining_));
  }
  if (!layer.readers.empty()) {
    throw UsageError(fmt::format(
        "layer {} selects the tokens of each step, and layer {} reads its cache, which is not "
        "supported",
        layer.index, layer.readers.front().index));
  }
}

// Before its first selection, and where none comes, a layer sees all tokens.
void RunningCaches::add_selected(std::size_t layer, int first, const LayerRows& rows) {
  std::shared_ptr<SelectedTokens>& selected = selected_[layer];
  if (rows.selected != nullptr) {
    check_selects(shape_.layers[layer], rows);
    if (!selected) {
      selected = std::make_shared<SelectedTokens>();
      for (const auto& unit : units_of(layer)) unit->select(selected);
      while (selected->num_steps() < first) add_all(*selected);
    }
  }
  if (!selected) return;
  for (int row = 0; row < rows.count; ++row) {
    if (rows.selected == nullptr) {
      add_all(*selected);
    } else {
      selected->add(rows.selected->at(row));
    }
  }
}

}  // namespace kvsim
