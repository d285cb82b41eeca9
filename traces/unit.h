#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kvsim {

/// One vector per row, rows contiguous in memory.
using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using MatrixDouble = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// How the recorded model rotated its keys (group `/rope`): enough to undo it.
struct Rope {
  std::vector<double> inverse_frequency;  ///< [rotary_dim / 2]
  std::string style;                      ///< "half" or "interleaved"
  double attention_factor = 1;
};

/// Names one unit of a trace: one KV head of one layer of one sequence.
struct UnitName {
  std::string sequence;
  int layer = 0;
  int kv_head = 0;
};

/// The recorded vectors of one KV head and its group of query heads over a sequence of n tokens.
struct Unit {
  UnitName name;
  int prompt_length = 0;                ///< tokens; 0: the sequence has no prompt
  float scale = 1;                      ///< logit = scale * <query, key>, before soft-capping
  std::optional<float> logit_softcap;   ///< logit becomes cap * tanh(logit / cap)
  std::optional<int> sliding_window;    ///< token j is visible at step t while t - j < window
  std::optional<Rope> rope;             ///< if the trace says how keys were rotated
  std::vector<std::int32_t> token_ids;  ///< one per token, or empty
  std::vector<std::string> token_text;  ///< one per token, or empty
  int key_bytes = 4;                    ///< bytes per recorded key element: 2 or 4
  int value_bytes = 4;                  ///< bytes per recorded value element: 2 or 4
  std::vector<Matrix> query;            ///< one [n, head_dim] per query head of the group
  Matrix key;                           ///< [n, head_dim], after positional rotation
  Matrix value;                         ///< [n, value_dim]

  int num_tokens() const { return static_cast<int>(key.rows()); }
  int group_size() const { return static_cast<int>(query.size()); }
};

}  // namespace kvsim
