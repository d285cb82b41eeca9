#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "traces/trace.h"

namespace kvsim {

enum class ElementType { float16, float32 };

/// Writes a trace file. The file, with its `trace_id`, appears under its name only when close()
/// returns; an unfinished file is removed. Throws std::runtime_error if the file cannot be written
/// or its element type cannot hold a number, std::invalid_argument for arguments that do not fit
/// the header.
class TraceWriter {
 public:
  TraceWriter(const std::filesystem::path& file, const TraceHeader& header, ElementType elements);
  /// Writes in memory; open() follows in place of close().
  TraceWriter(const TraceHeader& header, ElementType elements);
  ~TraceWriter();

  /// Starts a sequence. `token_ids` is empty or holds one entry per token.
  void begin_sequence(const std::string& name, int num_tokens, int prompt_length,
                      const std::string& source, const std::vector<std::int32_t>& token_ids);

  /// Writes the spans of the sequence begun last, at most once.
  void write_spans(const std::vector<Span>& spans);

  /// Writes one layer of the sequence begun last. `query` and `output` hold one matrix per query
  /// head ([n, head_dim], [n, value_dim]), `key` and `value` one per KV head; `output` may be
  /// empty.
  void write_layer(int layer, const std::vector<Matrix>& query, const std::vector<Matrix>& key,
                   const std::vector<Matrix>& value, const std::vector<Matrix>& output,
                   std::optional<int> sliding_window = {});

  void close();

  /// Ends the writing in memory. The trace is the one that close() would have put into a file.
  Trace open();

 private:
  void finish();

  struct File;
  std::unique_ptr<File> file_;
};

}  // namespace kvsim
