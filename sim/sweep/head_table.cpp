#include "sim/sweep/head_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/results/numpy/file_bytes.h"
#include "sim/sweep/head_table_formats.h"
#include "sim/sweep/head_table_json.h"
#include "traces/sha256.h"

namespace kvsim {
namespace {

/// How many heads of a layer have numbers: the first ones, the same in every row.
int heads_of(const HeadTable& table, int layer) {
  int count = 0;
  while (count < table.heads && !std::isnan(table.at(0, layer, count))) ++count;
  for (int row = 0; row < table.rows; ++row) {
    for (int head = 0; head < table.heads; ++head) {
      if (std::isnan(table.at(row, layer, head)) == (head >= count)) continue;
      refuse_file(table.file,
                  fmt::format("numbers of the first {} heads of layer {} alone", count, layer),
                  fmt::format("{} for head {}", table.at(row, layer, head), head),
                  "write nan after the heads of a layer, in every row");
    }
  }
  return count;
}

void check_layers(const HeadTable& table, const ModelHeads& model) {
  if (table.layers == model.num_layers) return;
  refuse_file(table.file, fmt::format("the {} layers of the model", model.num_layers),
              fmt::format("{}", table.layers), "make the file for this model");
}

}  // namespace

HeadTable read_head_table(const std::filesystem::path& file) {
  const std::string bytes = bytes_of_file(file, "a file of numbers per head");
  const std::string suffix = file.extension().string();
  const std::string name = file.string();
  HeadTable table = suffix == ".npy"    ? table_of_npy(name, bytes)
                    : suffix == ".json" ? table_of_json(name, bytes)
                                        : table_of_text(name, bytes);
  table.file = name;
  table.sha256 = sha256(bytes);
  return table;
}

HeadTable fitted(const HeadTable& table, const ModelHeads& model) {
  check_layers(table, model);
  HeadTable fit = table;
  fit.heads = 0;
  for (const auto& [layer, heads] : model.of_layer) fit.heads = std::max(fit.heads, heads.kv);
  const std::size_t size =
      static_cast<std::size_t>(table.rows) * static_cast<std::size_t>(table.layers * fit.heads);
  fit.values.assign(size, std::numeric_limits<double>::quiet_NaN());
  for (int layer = 0; layer < table.layers; ++layer) {
    const auto found = model.of_layer.find(layer);
    if (found == model.of_layer.end()) continue;
    const auto [kv, query] = found->second;
    const int there = heads_of(table, layer);
    if (there != kv && there != query) {
      refuse_file(table.file,
                  fmt::format("numbers of {} KV heads in layer {}{}", kv, layer,
                              query == kv ? "" : fmt::format(", or of {} query heads", query)),
                  fmt::format("{}", there), "make the file for this model");
    }
    const int group = there / kv;
    for (int row = 0; row < table.rows; ++row) {
      for (int head = 0; head < kv; ++head) {
        double sum = 0;
        for (int i = 0; i < group; ++i) sum += table.at(row, layer, head * group + i);
        fit.values[(static_cast<std::size_t>(row) * table.layers + layer) * fit.heads + head] =
            sum / group;
      }
    }
  }
  return fit;
}

}  // namespace kvsim
