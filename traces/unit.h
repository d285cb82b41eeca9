#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "traces/selected_tokens.h"

namespace kvsim {

/// One vector per row, rows contiguous in memory.
using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using MatrixDouble = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// How the recorded model rotated its keys (group `rope`): enough to undo it.
struct Rope {
  std::vector<double> inverse_frequency;  ///< [rotary_dim / 2]
  std::string style;                      ///< "half" or "interleaved"
  double attention_factor = 1;

  bool operator==(const Rope&) const = default;
};

/// Names one unit of a trace: one KV head of one layer of one sequence.
struct UnitName {
  std::string sequence;
  int layer = 0;
  int kv_head = 0;
};

/// A labelled part of a sequence: a needle, a question, an answer.
struct Span {
  int start = 0;  ///< its first token
  int end = 0;    ///< the token after its last
  std::string label;

  bool operator==(const Span&) const = default;
};

/// Consecutive rows of the vectors of a unit.
struct UnitPart {
  int first = 0;              ///< the token of the first row
  std::vector<Matrix> query;  ///< one [rows, head_dim] per query head of the group
  Matrix key;                 ///< [rows, head_dim]
  Matrix value;               ///< [rows, value_dim]; no rows if values are not asked for

  int end() const { return first + static_cast<int>(key.rows()); }
};

/// Reads the vectors of a unit part by part, for texts that need not be in memory as a whole. For
/// one thread.
class UnitRows {
 public:
  virtual ~UnitRows() = default;

  virtual int num_tokens() const = 0;

  /// Replaces the matrices of `part` by those from token `first` on: as many rows as are best read
  /// at once, or what is left of the text. Throws what Trace::read_unit() throws for these rows.
  virtual void read(int first, UnitPart& part) = 0;
};

/// The recorded vectors of one KV head and its group of query heads over a sequence of n tokens.
struct Unit {
  UnitName name;
  int prompt_length = 0;               ///< tokens; 0: the sequence has no prompt
  float scale = 1;                     ///< logit = scale * <query, key>, before soft-capping
  std::optional<float> logit_softcap;  ///< logit becomes cap * tanh(logit / cap)
  std::optional<int> sliding_window;   ///< token j is visible at step t while t - j < window
  std::optional<int> attention_chunk;  ///< it is while floor(j / chunk) = floor(t / chunk)
  std::shared_ptr<const SelectedTokens>
      selected;                         ///< what each step sees of these; null: all of them
  std::vector<float> sink_logit;        ///< of each query head of the group, or empty: see sink()
  std::optional<Rope> rope;             ///< if the trace says how keys were rotated
  std::vector<std::int32_t> token_ids;  ///< one per token, or empty
  std::vector<std::string> token_text;  ///< one per token, or empty
  int key_bytes = 4;                    ///< bytes per recorded key element: 2 or 4
  int value_bytes = 4;                  ///< bytes per recorded value element: 2 or 4
  std::vector<Matrix> query;            ///< one [n, head_dim] per query head of the group
  Matrix key;                           ///< [n, head_dim], after positional rotation
  Matrix value;                         ///< [n, value_dim]
  std::vector<Span> spans;              ///< of the sequence, in the order of the file

  /// Null, or in place of query, key and value, which then have no rows.
  std::shared_ptr<UnitRows> rows;

  /// W_O of each query head of the group, [value_dim, hidden]; empty if not recorded.
  std::vector<Matrix> output_projection;

  /// Per token, the squared norm of the residual stream that the layer's attention output is added
  /// to; empty if not recorded.
  std::vector<double> residual_square;

  /// The gradients of log p(y_t | x_<=t) with respect to the head outputs at step t, y_t being
  /// drawn from the model's own prediction: per sample one [n, value_dim] per query head of the
  /// group; empty if not recorded.
  std::vector<std::vector<Matrix>> output_score_grad;

  int num_tokens() const { return rows ? rows->num_tokens() : static_cast<int>(key.rows()); }
  int group_size() const { return static_cast<int>(query.size()); }

  /// The learned logit of a query head that takes its share of every softmax and gives no value;
  /// minus infinity, which takes none, if the layer has no sinks. Soft-capping leaves it as it is.
  float sink(int head) const {
    return sink_logit.empty() ? -std::numeric_limits<float>::infinity() : sink_logit[head];
  }

  /// Whether differences of outputs matter as vectors, not by their norm alone.
  bool weighs_outputs() const { return !output_projection.empty() || !output_score_grad.empty(); }
};

}  // namespace kvsim
