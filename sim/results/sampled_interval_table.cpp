#include "sim/results/sampled_interval_table.h"

#include <fmt/format.h>

#include "sim/results/integrity/value_ranges.h"

namespace kvsim {
namespace {

std::vector<Value> values_of(const SampledIntervalRow& row) {
  const Result& replay = row.row;
  const auto& interval = row.sampled.interval;
  return {replay.trace_id,
          replay.sequence,
          replay.layer,
          replay.kv_head,
          replay.policy,
          replay.budget,
          replay.mode,
          replay.seed,
          row.sampled.metric,
          replay.steps,
          value_of(interval ? std::optional(interval->low) : std::nullopt),
          value_of(interval ? std::optional(interval->high) : std::nullopt),
          replay.trace,
          replay.budget_request,
          replay.device,
          replay.kvsim_version,
          replay.policy_code};
}

}  // namespace

TableSchema sampled_interval_schema() {
  const auto as_in_replay = [](const char* name) {
    return result_column(name, "as in the table replay");
  };
  return {"sampled_interval",
          "a measured column of a row of the table replay whose mode has reference=sample:N: the "
          "range in which a sample of N steps leaves it",
          "percentile bootstrap over steps: Efron and Tibshirani 1993, section 13.3",
          {as_in_replay("trace_id"), as_in_replay("sequence"),
           result_column("layer", "of the model"), result_column("kv_head", "of the layer"),
           as_in_replay("policy"), result_column("budget", "tokens, as in the table replay"),
           as_in_replay("mode"), result_column("seed", "as in the table replay"),
           text_column("metric", "the column of the table replay, a mean over steps").key(),
           result_column("steps", "measured steps"),
           real_column("low",
                       "the lower end of the 95% interval: the 2.5th percentile of the metric over "
                       "2,000 draws of as many steps, with replacement, each with all its query "
                       "heads; NULL from a single step, and for a miss_rate where a draw may have "
                       "no access"),
           real_column("high", "the upper end, the 97.5th percentile"),
           result_column("trace", "the file, as named by the user"),
           result_column("budget_request", "the budget, as written by the user"),
           result_column("device", "that computed the row"),
           result_column("kvsim_version", "the release and source revision that wrote the row"),
           result_column("policy_code", "a digest of the policy's code and the engine's version")}};
}

void insert_sampled_intervals(SQLite::Database& connection,
                              const std::vector<SampledIntervalRow>& rows, const Run* run,
                              const std::string& file) {
  if (rows.empty()) return;
  const TableSchema schema = sampled_interval_schema();
  create_table(connection, schema, file);
  insert_rows(connection, schema, rows, run, values_of);
}

std::vector<SampledIntervalRow> sampled_intervals_of(SQLite::Database& connection,
                                                     const std::string& trace_id,
                                                     const std::string& mode, std::int64_t seed,
                                                     const std::string& file) {
  std::vector<SampledIntervalRow> rows;
  if (!connection.tableExists("sampled_interval")) return rows;
  const std::vector<std::string> names{"sequence", "layer",  "kv_head", "policy",
                                       "budget",   "metric", "low",     "high"};
  SQLite::Statement query(
      connection,
      fmt::format("SELECT {} FROM sampled_interval WHERE trace_id = ? AND mode = ? AND seed = ? "
                  "ORDER BY sequence, layer, kv_head, policy, budget, metric",
                  fmt::join(names, ", ")));
  const ValueCheck check(file, "sampled_interval",
                         columns_named(connection, "sampled_interval", names));
  query.bind(1, trace_id);
  query.bind(2, mode);
  query.bind(3, seed);
  while (query.executeStep()) {
    check(read_values(query));
    SampledIntervalRow& read = rows.emplace_back();
    read.row.trace_id = trace_id;
    read.row.mode = mode;
    read.row.seed = seed;
    read.row.sequence = query.getColumn(0).getString();
    read.row.layer = query.getColumn(1).getInt64();
    read.row.kv_head = query.getColumn(2).getInt64();
    read.row.policy = query.getColumn(3).getString();
    read.row.budget = query.getColumn(4).getInt64();
    read.sampled.metric = query.getColumn(5).getString();
    const SQLite::Column low = query.getColumn(6);
    const SQLite::Column high = query.getColumn(7);
    if (!low.isNull()) read.sampled.interval = {low.getDouble(), high.getDouble()};
  }
  return rows;
}

}  // namespace kvsim
