#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "sim/base/errors.h"
#include "sim/plugin/declared_parameters.h"
#include "sim/plugin/descriptors.h"
#include "traces/selected_dataset.h"

/// What kvsim_add_row() adds to.
struct kvsim_rows {
  const std::vector<kvsim::ColumnSchema>* columns;
  int num_queries;
  std::vector<kvsim::AnalysisRow> rows;
  std::string error;  // the first one
};

namespace kvsim {
namespace {

/// Columns that the table of every analysis has, or that mean a replay.
const std::set<std::string> kTakenColumns = {"trace_id",    "sequence", "layer", "kv_head",
                                             "query_head",  "policy",   "trace", "kvsim_version",
                                             "policy_code", "run_id"};

Value value_of_column(const ColumnSchema& column, double number) {
  constexpr double kMostExact = 9007199254740992;  // 2^53
  if (std::isnan(number)) {
    if (column.is_key) throw DataError(fmt::format("{} is a key, found NaN", column.name));
    return std::monostate();
  }
  if (column.type != ColumnSchema::Type::integer) return number;
  if (number != std::trunc(number) || std::abs(number) > kMostExact) {
    throw DataError(fmt::format("{}: expected a whole number, found {}", column.name, number));
  }
  return static_cast<std::int64_t>(number);
}

void add_row(kvsim_rows& rows, std::int32_t query, const double* values) {
  if (query < 0 || query >= rows.num_queries) {
    throw DataError(
        fmt::format("expected a query head from 0 to {}, found {}", rows.num_queries - 1, query));
  }
  AnalysisRow row{query, {}};
  for (const ColumnSchema& column : *rows.columns) {
    row.values.push_back(value_of_column(column, *values++));
  }
  rows.rows.push_back(std::move(row));
}

/// No exception may pass through functions of C.
std::int32_t add_row_or_keep_error(kvsim_rows* rows, std::int32_t query, const double* values) {
  try {
    if (rows->error.empty()) add_row(*rows, query, values);
  } catch (const std::exception& error) {
    rows->error = error.what();
  }
  return rows->error.empty() ? 0 : 1;
}

struct CAnalysisFunction {
  std::string owner;  // "analysis mine of ./libmine.so"
  std::vector<Param> params;
  std::vector<ColumnSchema> columns;
  std::ptrdiff_t num_keys;
  decltype(kvsim_analysis::analyze) analyze;
};

class CAnalysis final : public Analysis {
 public:
  CAnalysis(const CAnalysisFunction& function, const Params& params, const Unit& unit)
      : function_(function), numbers_(numbers_of(function.params, params, 1)), unit_(unit) {}

  std::vector<AnalysisRow> finish() override {
    kvsim_rows rows{&function_.columns, unit_.group_size(), {}, {}};
    std::vector<const float*> queries;
    for (const Matrix& query : unit_.query) queries.push_back(query.data());
    kvsim_unit unit = {};
    unit.sequence = unit_.name.sequence.c_str();
    unit.layer = unit_.name.layer;
    unit.kv_head = unit_.name.kv_head;
    unit.num_tokens = unit_.num_tokens();
    unit.num_queries = unit_.group_size();
    unit.head_dim = static_cast<std::int32_t>(unit_.key.cols());
    unit.value_dim = static_cast<std::int32_t>(unit_.value.cols());
    unit.prompt_length = unit_.prompt_length;
    unit.scale = unit_.scale;
    unit.logit_softcap = unit_.logit_softcap.value_or(0);
    unit.sliding_window = unit_.sliding_window.value_or(0);
    unit.queries = queries.data();
    unit.keys = unit_.key.data();
    unit.values = unit_.value.data();
    unit.token_ids = unit_.token_ids.empty() ? nullptr : unit_.token_ids.data();
    unit.attention_chunk = unit_.attention_chunk.value_or(0);
    unit.sink_logits = unit_.sink_logit.empty() ? nullptr : unit_.sink_logit.data();
    std::vector<std::int32_t> selected;
    if (unit_.selected) {
      selected = padded_rows(*unit_.selected);
      unit.selected = selected.data();
      unit.most_selected = unit_.selected->most();
    }
    const std::int32_t result =
        function_.analyze(&unit, numbers_.data(), add_row_or_keep_error, &rows);
    if (!rows.error.empty()) fail(fmt::format("a row is wrong: {}", rows.error));
    if (result != 0) fail(fmt::format("analyze() returned {}", result));
    check_keys(rows.rows);
    return std::move(rows.rows);
  }

 private:
  [[noreturn]] void fail(const std::string& reason) const {
    throw DataError(fmt::format("{}: sequence {}, layer {}, KV head {}: {}", function_.owner,
                                unit_.name.sequence, unit_.name.layer, unit_.name.kv_head, reason));
  }

  void check_keys(const std::vector<AnalysisRow>& rows) const {
    std::set<std::pair<int, std::vector<Value>>> seen;
    for (const AnalysisRow& row : rows) {
      const std::vector<Value> key(row.values.begin(), row.values.begin() + function_.num_keys);
      if (!seen.emplace(row.head, key).second) {
        fail(fmt::format("two rows of query head {} have the same key", row.head));
      }
    }
  }

  const CAnalysisFunction& function_;
  std::vector<double> numbers_;
  const Unit& unit_;
};

std::vector<ColumnSchema> columns_of(const kvsim_analysis& analysis, const std::string& owner) {
  if (analysis.num_columns < 1 || analysis.columns == nullptr) {
    throw DataError(owner + ": expected a column or more, found none");
  }
  std::vector<ColumnSchema> columns;
  std::set<std::string> taken = kTakenColumns;
  for (std::int32_t i = 0; i < analysis.num_columns; ++i) {
    const kvsim_column& column = analysis.columns[i];
    const std::string what = fmt::format("{}: column {}", owner, i);
    const std::string name = text_of(column.name, true, what + ": name");
    check_name(name, false, what);
    if (is_sql_word(name)) {
      throw DataError(fmt::format("{}: '{}' is a word of SQL; choose another name", what, name));
    }
    if (!taken.insert(name).second) {
      throw DataError(fmt::format("{}: the name '{}' is taken; choose another", what, name));
    }
    if (column.is_key != 0 && !columns.empty() && !columns.back().is_key) {
      throw DataError(fmt::format("{}: '{}' is a key; put keys first", what, name));
    }
    columns.push_back(
        {.name = name,
         .type = column.is_integer != 0 ? ColumnSchema::Type::integer : ColumnSchema::Type::real,
         .meaning = text_of(column.meaning, true, what + ": meaning"),
         .is_key = column.is_key != 0});
  }
  return columns;
}

}  // namespace

AnalysisInfo analysis_info_of(const kvsim_analysis& analysis, const PluginFile& file) {
  check_descriptor(analysis.version, analysis.size, sizeof analysis, file.name + ": an analysis");
  const std::string name = text_of(analysis.name, true, file.name + ": the name of an analysis");
  const std::string owner = fmt::format("{}: analysis '{}'", file.name, name);
  check_name(name, true, owner);
  if (is_sql_word(name)) throw DataError(owner + ": a word of SQL; choose another name");
  if (analysis.analyze == nullptr) throw DataError(owner + ": expected analyze(), found NULL");
  const std::string source = text_of(analysis.source, false, owner + ": source");
  AnalysisInfo info{
      .name = name,
      .shows = text_of(analysis.shows, true, owner + ": shows"),
      .source = fmt::format("{}{}plug-in {}", source, source.empty() ? "" : "; ", file.name),
      .params = parameters_of(analysis.parameters, analysis.num_parameters, owner),
      .columns = columns_of(analysis, owner)};
  for (const Param& param : info.params) {
    if (param.type == Param::Type::amount) {
      throw DataError(
          fmt::format("{}: parameter '{}' is an amount, but there is no budget; use an "
                      "integer",
                      owner, param.name));
    }
  }
  for (const ColumnSchema& column : info.columns) {
    if (!column.is_key) info.summary.push_back(column.name);
  }
  info.reads_attention = false;
  info.origin = file.name;
  const CAnalysisFunction function{.owner = fmt::format("analysis {} of {}", name, file.name),
                                   .params = info.params,
                                   .columns = info.columns,
                                   .num_keys = num_keys(info),
                                   .analyze = analysis.analyze};
  info.make = [function](const Params& params, const Subject& subject) {
    return std::make_unique<CAnalysis>(function, params, subject.unit);
  };
  return info;
}

}  // namespace kvsim
