#include <fmt/format.h>

#include <algorithm>
#include <list>
#include <set>

#include "analysis/analysis.h"
#include "analysis/unit_table.h"
#include "policies/parameters/split.h"
#include "sim/base/errors.h"
#include "sim/base/nearest.h"
#include "sim/results/result_tables.h"

namespace kvsim {

// One line per analysis: NAME stands for the function NAME_analysis() that its file defines.
#define KVSIM_ANALYSES(ANALYSIS) \
  ANALYSIS(persistence)          \
  ANALYSIS(persistence_curve)    \
  ANALYSIS(attention_maps)       \
  ANALYSIS(repetition)           \
  ANALYSIS(sparsity)             \
  ANALYSIS(good_distribution)    \
  ANALYSIS(heavy_hitters)        \
  ANALYSIS(concentration)        \
  ANALYSIS(vocabulary)           \
  ANALYSIS(power_law)            \
  ANALYSIS(mlp_heavy_hitters)    \
  ANALYSIS(mlp_concentration)    \
  ANALYSIS(scissorhands_bound)   \
  ANALYSIS(submodularity)        \
  ANALYSIS(h2o_bound)            \
  ANALYSIS(subgen_bound)         \
  ANALYSIS(clusters)             \
  ANALYSIS(cluster_growth)       \
  ANALYSIS(residual_similarity)  \
  ANALYSIS(score_change)         \
  ANALYSIS(evictions)            \
  ANALYSIS(anatomy)              \
  ANALYSIS(overlap)              \
  ANALYSIS(fragmentation)        \
  ANALYSIS(predicted_kl_steps)   \
  ANALYSIS(span_retention)       \
  ANALYSIS(regression)

#define KVSIM_DECLARE(name) AnalysisInfo name##_analysis();
KVSIM_ANALYSES(KVSIM_DECLARE)
#undef KVSIM_DECLARE

namespace {

/// Whether the name is that of a table or view that no analysis writes, or stands for all analyses.
bool is_taken(const std::string& name) {
  return name == "all" || name == unit_schema().name || find_table(name) != nullptr;
}

std::list<AnalysisInfo>& analysis_table() {
#define KVSIM_CALL(name) name##_analysis(),
  static std::list<AnalysisInfo> table{KVSIM_ANALYSES(KVSIM_CALL)};
#undef KVSIM_CALL
  return table;
}

const AnalysisInfo& find_analysis(std::string_view name) {
  std::vector<std::string> names;
  for (const AnalysisInfo* info : analyses()) {
    if (info->name == name) return *info;
    names.push_back(info->name);
  }
  throw UsageError(
      fmt::format("unknown analysis '{}'; did you mean '{}'? (kvsim analyze --help lists them)",
                  name, nearest(name, names)));
}

AnalysisSpec parse_analysis(std::string_view text) {
  const std::size_t colon = text.find(':');
  const AnalysisInfo& info = find_analysis(text.substr(0, colon));
  AnalysisSpec spec{&info, Params(info.params)};
  if (colon == std::string_view::npos) return spec;
  const std::string owner = "analysis " + info.name;
  std::set<std::string_view> seen;
  for (const std::string_view setting : split(text.substr(colon + 1), ',')) {
    const std::size_t equals = setting.find('=');
    if (equals == std::string_view::npos) {
      throw UsageError(fmt::format("{}: '{}' is not of the form key=value", owner, setting));
    }
    if (!seen.insert(setting.substr(0, equals)).second) {
      throw UsageError(fmt::format("{}: '{}' is given twice", owner, setting.substr(0, equals)));
    }
    spec.params.set(setting.substr(0, equals), setting.substr(equals + 1), owner);
  }
  if (info.check != nullptr) info.check(spec.params);
  return spec;
}

// A comma separates analyses unless "key=value" follows it.
std::vector<std::string> parts_of(std::string_view list) {
  std::vector<std::string> parts;
  for (const std::string_view group : split(list, ';')) {
    const std::size_t before = parts.size();
    for (const std::string_view part : split(group, ',')) {
      const std::size_t mark = part.find_first_of(":=");
      const bool is_setting = mark != std::string_view::npos && part[mark] == '=';
      if (is_setting && parts.size() > before) {
        parts.back() += fmt::format(",{}", part);
      } else {
        parts.emplace_back(part);
      }
    }
  }
  return parts;
}

}  // namespace

std::vector<const AnalysisInfo*> analyses() {
  std::vector<const AnalysisInfo*> all;
  for (const AnalysisInfo& info : analysis_table()) all.push_back(&info);
  return all;
}

void register_analysis(AnalysisInfo analysis) {
  std::list<AnalysisInfo>& table = analysis_table();
  static std::list<AnalysisInfo> replaced;  // specs refer to them
  const std::string name = schema_of(analysis).name;
  const auto earlier = std::find_if(table.begin(), table.end(), [&](const AnalysisInfo& known) {
    return schema_of(known).name == name;
  });
  const bool is_other = earlier != table.end() &&
                        (earlier->origin != analysis.origin || earlier->name != analysis.name);
  if (is_other || is_taken(name)) {
    throw UsageError(
        fmt::format("analysis '{}' of {}: another table or analysis has this name; choose another",
                    analysis.name, analysis.origin));
  }
  if (earlier == table.end()) {
    table.push_back(std::move(analysis));
    return;
  }
  table.insert(earlier, std::move(analysis));
  replaced.splice(replaced.end(), table, earlier);
}

std::vector<AnalysisSpec> parse_analyses(std::string_view list) {
  std::vector<AnalysisSpec> specs;
  for (const std::string& part : parts_of(list)) {
    if (part == "all") {
      for (const AnalysisInfo* info : analyses()) specs.push_back({info, Params(info->params)});
    } else {
      specs.push_back(parse_analysis(part));
    }
  }
  for (std::size_t i = 0; i < specs.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (specs[i].info == specs[j].info && specs[i].params.text() == specs[j].params.text()) {
        throw UsageError(
            fmt::format("the analysis {} is named twice; leave one out", specs[i].info->name));
      }
    }
  }
  return specs;
}

std::ptrdiff_t num_keys(const AnalysisInfo& info) {
  return std::count_if(info.columns.begin(), info.columns.end(),
                       [](const ColumnSchema& column) { return column.is_key; });
}

bool replays_policies(const AnalysisInfo& info) {
  return std::any_of(info.columns.begin(), info.columns.end(),
                     [](const ColumnSchema& column) { return column.name == "policy"; });
}

TableSchema schema_of(const AnalysisInfo& info) {
  TableSchema schema{info.name, info.shows, info.source, {}};
  std::replace(schema.name.begin(), schema.name.end(), '-', '_');
  if (!info.notes.empty()) schema.shows += "; " + info.notes;
  schema.columns = {
      text_column("trace_id", "the trace: its trace_id, or the SHA-256 of the file").key(),
      text_column("sequence", "the recorded text").key(), integer_column("layer", "0-based").key()};
  if (!info.spans_heads) {
    schema.columns.push_back(integer_column("query_head", "0-based within the layer").key());
  }
  const auto first_other = info.columns.begin() + num_keys(info);
  schema.columns.insert(schema.columns.end(), info.columns.begin(), first_other);
  if (!info.spans_heads) {
    schema.columns.push_back(
        integer_column("kv_head", "the KV head that the query head reads, 0-based"));
  }
  schema.columns.insert(schema.columns.end(), first_other, info.columns.end());
  schema.columns.push_back(text_column("trace", "the file, as it was named"));
  schema.columns.push_back(text_column("kvsim_version", "the version that wrote the row"));
  if (replays_policies(info)) {
    schema.columns.push_back(
        text_column("policy_code",
                    "a digest of the policy's code and the engine's version; of two policies, "
                    "joined by +"));
  }
  return schema;
}

}  // namespace kvsim
