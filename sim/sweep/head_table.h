#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace kvsim {

/// Numbers per head of a model, from a file: [rows, layers, heads], one row unless the file has
/// several. A value is NaN where a layer has no such head.
struct HeadTable {
  std::string file;    ///< as it was named
  std::string sha256;  ///< of its bytes
  int rows = 0;
  int layers = 0;
  int heads = 0;
  std::vector<double> values;

  double at(int row, int layer, int head) const {
    return values[(static_cast<std::size_t>(row) * layers + layer) * heads + head];
  }
};

/// Reads `.npy` (float32 or float64, [layers, heads] or [rows, layers, heads]), `.json` (lists of
/// the same, with null for NaN, or an object {"LAYER-HEAD": [scores]}, of whose scores the mean
/// counts), or else a text with a line per layer whose numbers are separated by tabs, blanks or
/// commas, as numpy.savetxt writes it. Throws DataError for a file that cannot be read, is larger
/// than 64 MiB, or holds something else.
HeadTable read_head_table(const std::filesystem::path& file);

/// The heads of a model, by its layers that are known and have a cache of their own.
struct ModelHeads {
  struct Heads {
    int kv = 0;
    int query = 0;
  };
  int num_layers = 0;  ///< of the model, those without a cache of their own included
  std::map<int, Heads> of_layer;
};

/// The table with one value per KV head of the model; of one per query head the mean over those of
/// a KV head. Throws DataError if the table has other layers or heads than the model, or a NaN in
/// only some rows of a head.
HeadTable fitted(const HeadTable& table, const ModelHeads& model);

}  // namespace kvsim
