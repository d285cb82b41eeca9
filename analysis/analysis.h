#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "policies/parameters/params.h"
#include "sim/attention/attention.h"
#include "sim/attention/device_summaries.h"
#include "sim/base/amount.h"
#include "sim/replay/replay.h"
#include "sim/results/table_schema.h"
#include "traces/trace.h"

namespace kvsim {

struct LayerStream;  // analysis/layer_stream.h

using ReadRows = std::function<void(Dataset dataset, const SeeRows& see)>;

/// A replay of the unit under one policy at one budget.
struct PolicyRun {
  Spec policy;
  int budget = 1;  ///< tokens, as in the table `replay`
  int peak = 1;    ///< most entries held after a step: the head's own budget once the cache is full
  Trajectory trajectory;
  Amounts amounts = {};  ///< of an estimator: Outcome::amounts
};

/// The replays of all KV heads of a layer under one policy at one budget, head by head.
using LayerRun = std::vector<const PolicyRun*>;

/// What an analysis of one unit may read in addition to the attention blocks.
struct Subject {
  const Unit& unit;
  std::vector<PolicyRun> runs;  ///< the replays that AnalysisInfo::accepts
  Protocol protocol = {};
  std::int64_t seed = 0;

  /// Set for an analysis with AnalysisInfo::runs_on_device if there is a device: it reads its
  /// result from here in finish() and gets no blocks. Else null.
  const DeviceSummaries* device = nullptr;

  /// The residual stream at the unit's layer. Set for an analysis with AnalysisInfo::needs_stream
  /// where the trace has it, else null.
  const LayerStream* stream = nullptr;

  /// Per query head and token: the sum of a[t,j] over all steps t. Empty unless
  /// AnalysisInfo::looks_ahead, as it takes an extra pass over the attention.
  std::vector<std::vector<double>> total_attention = {};

  /// Shows a dataset of the layer as a whole. Set for an analysis with AnalysisInfo::of_layer at
  /// the one unit that stands for its layer, the first recorded KV head; else null.
  ReadRows read_rows = {};

  /// The replays of the whole layer, in the order of `runs`. Set for an analysis with
  /// AnalysisInfo::spans_heads at the one unit that stands for its layer; else empty.
  std::vector<LayerRun> layer_runs = {};

  /// The first step that a replay measures.
  int first_measured() const { return protocol.first_measured(unit.prompt_length); }
};

/// One row of an analysis' table.
struct AnalysisRow {
  int head = 0;               ///< query head within the unit's group
  std::vector<Value> values;  ///< parallel to AnalysisInfo::columns
};

/// One analysis of one unit.
class Analysis {
 public:
  virtual ~Analysis() = default;

  /// Called with every block of the unit's full attention, in order.
  virtual void add(const AttentionBlock&) {}

  /// The rows of the unit. Called once, after the last block.
  virtual std::vector<AnalysisRow> finish() = 0;
};

/// The sizes on which the memory of an analysis of one unit depends.
struct AnalysisSize {
  std::size_t tokens = 0;
  std::size_t group = 1;  ///< query heads
  std::size_t head_dim = 0;
  std::size_t runs = 0;                        ///< replays that it reads
  std::size_t evictions = 0;                   ///< of these replays, at most
  std::map<Dataset, std::size_t> widths = {};  ///< of what is recorded of the layer

  std::size_t width(Dataset dataset) const {
    const auto found = widths.find(dataset);
    return found == widths.end() ? 0 : found->second;
  }
};

/// The memory that an analysis of one unit takes in addition to the unit and its blocks.
struct AnalysisMemory {
  std::size_t rows = 0;
  std::size_t bytes = 0;
};

/// The declaration of an analysis, from which help, parsing, tests and its table in the result file
/// are derived.
struct AnalysisInfo {
  std::string name;    ///< the table is called the same, with _ for -
  std::string shows;   ///< what a row is
  std::string source;  ///< paper and section
  std::string notes;   ///< how it reads what the paper leaves open; may be empty
  std::vector<Param> params;
  std::vector<ColumnSchema> columns;         ///< its own columns: keys first
  std::vector<std::string> summary;          ///< columns whose means the program prints ...
  std::vector<std::string> summary_by = {};  ///< ... per layer and value of these columns

  bool reads_attention = true;
  std::vector<Dataset> needs = {};  ///< what the trace must hold
  bool of_layer = false;            ///< needs Subject::read_rows
  bool spans_heads = false;         ///< its rows are of layers: needs Subject::layer_runs
  bool needs_stream = false;        ///< needs Subject::stream, so the trace must hold all heads
  bool needs_spans = false;         ///< the trace must hold needles, and answers to predict
  bool reads_selections = false;    ///< needs Trajectory::selected
  bool looks_ahead = false;         ///< needs Subject::total_attention
  bool by_token = false;            ///< speaks of caches that evict one token at a time
  bool runs_on_device = false;      ///< can use Subject::device

  /// The policies whose replays it can read; null if it reads no replays.
  bool (*accepts)(const Spec& policy) = nullptr;
  std::size_t min_policies = 1;  ///< of accepted policies, if it reads replays

  /// Throws UsageError if a text parameter is malformed; may be null.
  void (*check)(const Params& params) = nullptr;
  /// An upper estimate of its memory; null: little.
  AnalysisMemory (*memory)(const Params& params, const AnalysisSize& size) = nullptr;
  std::function<std::unique_ptr<Analysis>(const Params& params, const Subject& subject)> make;

  bool needs_dataset(Dataset dataset) const {
    return std::find(needs.begin(), needs.end(), dataset) != needs.end();
  }

  /// The file that it comes from, if it was registered when the program ran. Empty: it is built in.
  std::string origin = {};
};

template <class A>
std::unique_ptr<Analysis> make_analysis(const Params& params, const Subject& subject) {
  return std::make_unique<A>(params, subject);
}

/// All analyses, in the order in which help shows them, then those that were registered. References
/// to them stay valid.
std::vector<const AnalysisInfo*> analyses();

/// Adds an analysis of a plug-in or of a program, in place of an earlier one of that name and
/// origin. Not while another thread uses the registry. Throws UsageError for a name that another
/// analysis has, or whose table a result file has already.
void register_analysis(AnalysisInfo analysis);

/// An analysis with its parameters, as a user names it: `name` or `name:key=value,key=value`.
struct AnalysisSpec {
  const AnalysisInfo* info;
  Params params;
};

/// Specs separated by ';', or by ',' where what follows is not a parameter of the one before. "all"
/// stands for every analysis. Throws UsageError for an unknown analysis or parameter, a value that
/// is not allowed, or an analysis named twice with the same parameters.
std::vector<AnalysisSpec> parse_analyses(std::string_view list);

/// The number of keys in AnalysisInfo::columns; they come first.
std::ptrdiff_t num_keys(const AnalysisInfo& info);

/// Whether its rows are about replays of policies: it has a column `policy`.
bool replays_policies(const AnalysisInfo& info);

/// The table of an analysis: trace_id, sequence, layer, query_head and its own key columns are the
/// key; kv_head, its other columns, trace, kvsim_version and, if it replays_policies(), policy_code
/// follow. With AnalysisInfo::spans_heads there are no query_head and kv_head.
TableSchema schema_of(const AnalysisInfo& info);

}  // namespace kvsim
