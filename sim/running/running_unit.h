#pragma once

#include "sim/outputs/replayed_unit.h"
#include "sim/running/model_shape.h"

namespace kvsim {

/// Vectors of new tokens of one layer, contiguous rows.
struct LayerRows {
  int count = 0;
  const float* query = nullptr;  ///< [query heads, query_stride]: each [count, head_dim]
  const float* key = nullptr;    ///< [KV heads, key_stride]: each [count, head_dim]
  const float* value = nullptr;  ///< [KV heads, value_stride]: each [count, value_dim]
  std::size_t query_stride = 0;  ///< floats from one head to the next
  std::size_t key_stride = 0;
  std::size_t value_stride = 0;
  const SelectedTokens* selected = nullptr;  ///< by these tokens, steps from 0 on; null: all
};

/// One KV head of a running model: a unit that grows, with the attention of its latest block of
/// steps. Not movable: replays refer to it.
class RunningUnit {
 public:
  /// Without a token yet.
  RunningUnit(UnitName name, const ModelShape& model, const ModelLayer& layer, int prompt_length);
  RunningUnit(const RunningUnit&) = delete;
  RunningUnit& operator=(const RunningUnit&) = delete;

  /// Adds tokens, of which `rows` has those of all heads of the layer.
  void append(const LayerRows& rows);

  /// Adds the queries of a reader of the layer for the tokens that append() added last.
  void append_queries(std::size_t reader, const LayerRows& rows);

  /// Each step sees these tokens alone, which are those of as many steps as the unit has tokens.
  void select(std::shared_ptr<const SelectedTokens> selected) {
    unit_.selected = std::move(selected);
  }

  /// The tokens so far.
  int num_tokens() const { return num_tokens_; }

  /// Computes the attention of steps first_step .. first_step + num_steps - 1, to all tokens.
  void compute(int first_step, int num_steps) { replayed_.compute(first_step, num_steps); }

  const Unit& unit() const { return unit_; }

  /// W_O of each query head, [value_dim, hidden] row by row; empty: not known.
  std::vector<std::span<const float>> output_projection() const;

  ReplayedUnit& replayed() { return replayed_; }

 private:
  void append_group(std::size_t group, int first_row, const LayerRows& rows);

  int num_tokens_ = 0;
  std::shared_ptr<const float> projection_;  // of all query heads of the layer; null: not known
  std::size_t projection_size_ = 0;          // floats of a query head
  std::vector<std::size_t> group_ends_;  // in the unit's query heads: of the layer, of each reader
  Unit unit_;                            // its matrices have rows to spare
  ReplayedUnit replayed_;
};

}  // namespace kvsim
