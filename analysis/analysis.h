#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sim/core/attention.h"
#include "sim/core/device_summaries.h"
#include "sim/core/parameters.h"
#include "sim/core/replay.h"
#include "sim/core/table_schema.h"

namespace kvsim {

/// What one policy did to the unit at one budget.
struct PolicyRun {
  Spec policy;
  int budget = 1;  ///< tokens, as the row of the table `replay` has it
  int peak = 1;    ///< most entries held after a step: the head's own budget once it has been full
  Trajectory trajectory;
};

/// The unit that an analysis is made for, with the replays of it that were asked for.
struct Subject {
  const Unit& unit;
  std::vector<PolicyRun> runs;  ///< those that the analysis accepts
  Mode mode = Mode::stream;
  std::int64_t seed = 0;

  /// For an analysis that a device can do by itself; null: it gets every block.
  const DeviceSummaries* device = nullptr;

  /// Per query head and token: the sum of a[t,j] over all steps. Only for an analysis that looks
  /// ahead, as it takes a pass of its own; else empty.
  std::vector<std::vector<double>> total_attention = {};

  /// The steps before this one are not measured by a replay.
  int first_measured() const { return mode == Mode::prefill ? unit.prompt_length : 0; }
};

/// One row of an analysis' table.
struct AnalysisRow {
  int head = 0;               ///< query head within the unit's group
  std::vector<Value> values;  ///< parallel to AnalysisInfo::columns
};

/// One analysis of one unit at work.
class Analysis {
 public:
  virtual ~Analysis() = default;

  /// The next steps of the unit's full attention. All analyses share one pass over it.
  virtual void add(const AttentionBlock&) {}

  /// What was found. Called once, after the last block.
  virtual std::vector<AnalysisRow> finish() = 0;
};

/// Everything the program knows about an analysis: help, parsing, tests and its table in the result
/// file are derived from it.
struct AnalysisInfo {
  std::string name;    ///< the table is called the same, with _ for -
  std::string shows;   ///< what a row is
  std::string source;  ///< paper and section
  std::string notes;   ///< what the paper leaves open, and how it is taken; may be empty
  std::vector<Param> params;
  std::vector<ColumnSchema> columns;         ///< of its own: keys first
  std::vector<std::string> summary;          ///< columns whose means the program prints ...
  std::vector<std::string> summary_by = {};  ///< ... per layer and value of these columns

  bool reads_attention = true;
  bool needs_tokens = false;  ///< the trace has to hold token_ids
  bool looks_ahead = false;   ///< fill Subject::total_attention
  bool is_summary = false;    ///< a device can do it: see Subject::device
  /// Set if it looks at replays: which ones it can look at.
  bool (*accepts)(const Spec& policy) = nullptr;
  std::size_t fewest_policies = 1;  ///< of those

  /// Throws UsageError for a text parameter that does not say what it should; may be null.
  void (*check)(const Params& params) = nullptr;
  std::unique_ptr<Analysis> (*make)(const Params& params, const Subject& subject);
};

template <class A>
std::unique_ptr<Analysis> make_analysis(const Params& params, const Subject& subject) {
  return std::make_unique<A>(params, subject);
}

/// All analyses, in the order in which help shows them.
std::vector<const AnalysisInfo*> analyses();

/// An analysis with its parameters, as a user names it: `name` or `name:key=value,key=value`.
struct AnalysisSpec {
  const AnalysisInfo* info;
  Params params;
};

/// Specs separated by ';', or by ',' where what follows is not a parameter of the one before. "all"
/// stands for every analysis. Throws UsageError for an unknown analysis or parameter, a value that
/// is not allowed, or an analysis named twice with the same parameters.
std::vector<AnalysisSpec> parse_analyses(std::string_view list);

/// How many of AnalysisInfo::columns are keys: the first ones.
std::ptrdiff_t num_keys(const AnalysisInfo& info);

/// The table of an analysis: trace_id, sequence, layer, query_head and its own key columns are the
/// key; kv_head, its other columns, trace and kvsim_version follow.
TableSchema schema_of(const AnalysisInfo& info);

}  // namespace kvsim
