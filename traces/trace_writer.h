#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "traces/element_type.h"
#include "traces/trace.h"

namespace kvsim {

/// What float16 gradients of a layer are divided by, `largest` being the largest of them: the power
/// of two that brings it into [2^13, 2^14), far from the largest float16, 65504. Gradients down to
/// 2^-28 of it then keep all digits of a float16. 1 if all are 0.
double gradient_scale(float largest);

/// What a layer has of its own; the header says what is not here.
struct LayerAttributes {
  std::optional<int> sliding_window = {};   ///< see Unit
  std::optional<int> attention_chunk = {};  ///< see Unit
  std::optional<int> kv_from = {};          ///< see LayerInfo
  std::optional<double> scale = {};
  std::optional<Rope> rope = {};
};

/// Writes a trace file of version 2. The file, with its manifest and `trace_id`, appears under its
/// name only when close() returns; an unfinished file is removed. Throws std::runtime_error if the
/// file cannot be written or its element type cannot hold a number, std::invalid_argument for
/// arguments that do not fit the header.
class TraceWriter {
 public:
  TraceWriter(const std::filesystem::path& file, const TraceHeader& header, ElementType elements);
  /// Writes in memory; open() follows in place of close().
  TraceWriter(const TraceHeader& header, ElementType elements);
  ~TraceWriter();

  /// Starts a sequence. `token_ids` is empty or holds one entry per token; `rope` is written where
  /// it rotates otherwise than the header says.
  void begin_sequence(const std::string& name, int num_tokens, int prompt_length,
                      const std::string& source, const std::vector<std::int32_t>& token_ids,
                      const std::optional<Rope>& rope = {});

  /// Writes the texts of the tokens of the sequence begun last, in UTF-8, at most once.
  void write_token_text(const std::vector<std::string>& texts);

  /// Writes the spans of the sequence begun last, at most once.
  void write_spans(const std::vector<Span>& spans);

  /// Writes one layer of the sequence begun last. `query` and `output` hold one matrix per query
  /// head ([n, head_dim], [n, value_dim]), `key` and `value` one per KV head; `output` may be
  /// empty. A layer may have other heads than the header says, but the same in every sequence. With
  /// `kv_from` it has no key and value.
  void write_layer(int layer, const std::vector<Matrix>& query, const std::vector<Matrix>& key,
                   const std::vector<Matrix>& value, const std::vector<Matrix>& output,
                   const LayerAttributes& attributes = {});

  /// Writes the learned sink logits, one per query head, for the layer of the sequence that was
  /// written last. Always float32.
  void write_sink_logit(const std::vector<float>& logits);

  /// Writes what the model selected at each step of that layer, at least one token.
  void write_selected(const SelectedTokens& selection);

  /// Writes W_O of a layer, [query heads * value_dim, hidden], at most once per layer.
  void write_projection(int layer, const Matrix& projection);

  /// Writes a dataset [n, any] of a layer as a whole, such as Dataset::residual, for the layer of
  /// the sequence that was written last.
  void write_rows(Dataset dataset, const Matrix& rows);

  /// Writes the gradients of that layer (Unit::output_score_grad): per sample one [n, value_dim]
  /// per query head. The file holds them over a power of two that uses the range of float16.
  void write_gradients(const std::vector<std::vector<Matrix>>& gradients, int label_seed);

  void close();

  /// Ends the writing in memory. The trace is the one that close() would have put into a file.
  Trace open();

 private:
  void finish();

  struct File;
  std::unique_ptr<File> file_;
};

}  // namespace kvsim
