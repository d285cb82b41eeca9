#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "traces/datasets.h"
#include "traces/layer_shape.h"
#include "traces/unit.h"

namespace kvsim {

class GroupReader;
struct GuardLimits;

/// The attributes of the file, which describe one model.
struct TraceHeader {
  int version = 2;  ///< of the format; 1 has no digests, so nothing is checked
  std::string model;
  int num_layers = 0;
  LayerShape shape;  ///< of layers that do not say otherwise
  std::optional<double> logit_softcap;
  std::string recorder;  ///< empty if the file does not say
  std::string dtype;     ///< empty if the file does not say
  /// The trace_id of the file of version 1 from which this was converted, or empty.
  std::string trace_id_v1;
};

/// What is recorded of one layer of one sequence.
struct LayerInfo {
  int index = 0;
  LayerShape shape;
  std::optional<int> kv_from = {};  ///< the layer whose keys and values it reads
  std::vector<int> readers = {};    ///< the layers that read its keys and values, ascending
  /// The recorded KV heads, ascending, with the query heads of all readers; none with kv_from.
  std::vector<int> kv_heads;
  std::optional<int> sliding_window;
  std::optional<int> attention_chunk;
  int key_bytes = 4;     ///< bytes per element, 2 or 4
  int value_bytes = 4;   ///< bytes per element, 2 or 4
  int output_bytes = 4;  ///< bytes per element, 2 or 4; meaningless without output
  bool has_output = false;
  int gradient_samples = 0;  ///< S of output_score_grad; 0: not recorded for every head
  int gradient_bytes = 4;    ///< bytes per element, 2 or 4; meaningless without gradient_samples
  int hidden = 0;  ///< columns of output_projection; 0: not recorded, or of a layer with readers

  /// The shapes of the optional datasets, of those with heads where all kv_heads have them, in the
  /// layer itself.
  std::map<Dataset, std::vector<int>> recorded = {};

  bool has(Dataset dataset) const { return recorded.contains(dataset); }
  /// Its last axis; 0: not recorded.
  int width(Dataset dataset) const;
};

struct SequenceInfo {
  std::string name;
  int num_tokens = 0;
  int prompt_length = 0;  ///< 0: none
  std::string source;     ///< empty if the file does not say
  bool has_token_ids = false;
  bool has_token_text = false;
  std::vector<Span> spans;        ///< in the order of the file; may overlap
  std::vector<LayerInfo> layers;  ///< the recorded layers, ascending
};

/// What Trace::read_unit() reads in addition to queries, keys and token ids.
struct UnitParts {
  bool vectors = true;     ///< false: queries, keys and values are left to Unit::rows
  bool values = true;      ///< false: Unit::value is [0, value_dim]
  bool text = true;        ///< false: Unit::token_text is empty
  bool gradients = true;   ///< false: Unit::output_score_grad is empty
  bool projection = true;  ///< false: Unit::output_projection and residual_square are empty
};

/// Gets the rows of a matrix, some at a time.
using SeeRows = std::function<void(const Matrix& rows)>;

/// A trace file (format: traces/README.md), open for reading.
///
/// Opening checks everything but the recorded numbers: version, attributes, shapes and types of
/// every dataset, and from version 2 on that the manifest lists just these. Numbers are checked to
/// be finite and, by the digest of each head, to be those that were recorded when they are read,
/// which they are not in version 1. Both throw DataError. Copies share the file. A file is first
/// opened in a child process with limits (traces/guard), so that damage which the library does not
/// survive is a DataError, too. Many threads may use one Trace: they fetch bytes one after the
/// other, and unpack them at the same time.
class Trace {
 public:
  /// Throws also Interrupted.
  explicit Trace(const std::filesystem::path& file);
  /// With limits of the child other than GuardLimits::of(file).
  Trace(const std::filesystem::path& file, const GuardLimits& limits);
  /// A trace in memory, whose root group `open` opens; called under the Hdf5Lock.
  explicit Trace(const std::function<GroupReader()>& open);
  /// A trace in memory, from what image() of another returned.
  static Trace from_image(const std::string& image);

  const std::filesystem::path& file() const;
  const TraceHeader& header() const;
  const std::vector<SequenceInfo>& sequences() const;  ///< sorted by name

  /// The file's `trace_id` attribute: from version 2 on the SHA-256 of its manifest, in
  /// hexadecimal. A file of version 1 may lack it; then it is the SHA-256 of the file, and the
  /// first call reads the whole file.
  const std::string& id() const;

  /// Reads one KV head, its query heads, and the tokens and spans of the sequence. Where layers
  /// share a cache, the query heads are those of the layer that writes it, then of each reader.
  /// Throws DataError if the file lacks the unit, a number is not finite or a logit may overflow a
  /// float.
  Unit read_unit(const UnitName& name, UnitParts parts = {}) const;

  /// The head outputs that the model computed for the unit's query heads: one [n, value_dim] per
  /// query head, in the order of Unit::query. Throws DataError if the file lacks them.
  std::vector<Matrix> read_output(const UnitName& name) const;

  /// Shows `see` a dataset [tokens, any] of a layer as a whole, such as Dataset::mlp_activation,
  /// some rows at a time and in order, so that memory stays small. Throws DataError if the file
  /// lacks it or a number is not finite.
  void read_rows(Dataset dataset, const std::string& sequence, int layer, const SeeRows& see) const;

  /// Whether it is no file, but memory. Then file() is kInMemory.
  bool in_memory() const;
  static constexpr const char* kInMemory = "trace in memory";

  /// Calls `see` with the file's root group, under the Hdf5Lock.
  void with_root(const std::function<void(const GroupReader& root)>& see) const;

  /// The bytes of the file.
  std::string image() const;

 private:
  struct File;
  class Rows;
  std::shared_ptr<File> file_;
};

}  // namespace kvsim
