#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>

namespace kvsim {

/// The datasets that a trace may hold. datasets.cpp declares each, in this order.
enum class Dataset {
  inv_freq,
  token_ids,
  token_text,
  token_text_offsets,
  span_start,
  span_end,
  span_label,
  span_label_offsets,
  query,
  key,
  value,
  output,
  sink_logit,
  selected,
  output_projection,
  residual,
  output_score_grad,
  mlp_activation
};

/// The kinds of groups that hold datasets, in the order of the file.
enum class Level { rope, model_layer, sequence, spans, layer };

enum class Elements { vectors, float64, int32, text, offsets };

/// An axis of a dataset. Its size is given by what stands elsewhere, or any of at least 1.
struct Axis {
  enum class Size { any, query_heads, kv_heads, tokens, head_dim, value_dim, head_outputs };

  std::string_view name = {};
  Size size = Size::any;
};

/// The declaration of a dataset, from which the manifest, all checks and copies of the file, its
/// description and what is said of it are derived.
struct DatasetInfo {
  Dataset id{};
  std::string_view name;  ///< in its group
  Level level{};
  Elements elements = Elements::vectors;
  std::array<Axis, 4> axes = {};  ///< those without a name are not there
  bool optional = true;
  std::string_view holds;       ///< for the README
  std::string_view title = {};  ///< what is missing where something needs it and it is not there
  std::string_view cure = {};   ///< and what to do
  int shown_axis = -1;          ///< whose size `kvsim info` shows, if any

  int num_axes() const;

  /// Vectors stand in matrices [.., rows, dim], which are written and read head by head; all else
  /// is read as a whole.
  bool is_matrices() const { return elements == Elements::vectors && num_axes() > 1; }

  /// A matrix of a layer without heads, which is there as a whole or not at all.
  bool is_whole() const { return is_matrices() && num_axes() == 2; }
};

/// All datasets of the format.
std::span<const DatasetInfo> datasets();

const DatasetInfo& info_of(Dataset dataset);

/// With its elements as text: `int32 [n]`, `[num_kv_heads, n, value_dim]`.
std::string type_and_shape(const DatasetInfo& info);

/// The group of a dataset in the file, with `<name>` and `<l>` for a sequence and a layer.
std::string group_path(Level level);

/// The dataset of one sequence and layer in the file.
std::string path_of(const DatasetInfo& info, const std::string& sequence, int layer);

}  // namespace kvsim
