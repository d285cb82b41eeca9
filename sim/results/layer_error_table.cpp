#include "sim/results/layer_error_table.h"

#include <fmt/format.h>

#include "sim/results/integrity/value_ranges.h"

namespace kvsim {
namespace {

/// A condition for the rows of one layer, mode and seed, and the values of its places.
constexpr const char* kOfLayer =
    "trace_id = ? AND sequence = ? AND layer = ? AND mode = ? AND seed = ?";
constexpr int kPlacesOfLayer = 5;

void bind_layer(SQLite::Statement& statement, const Result& key) {
  statement.bind(1, key.trace_id);
  statement.bind(2, key.sequence);
  statement.bind(3, key.layer);
  statement.bind(4, key.mode);
  statement.bind(kPlacesOfLayer, key.seed);
}

}  // namespace

std::vector<Value> layer_error_values(const LayerErrorRow& row) {
  const Result& unit = row.row;
  return {unit.trace_id,
          unit.sequence,
          unit.layer,
          unit.policy,
          unit.budget,
          unit.mode,
          unit.seed,
          unit.steps,
          value_of(row.error.projected_error),
          value_of(row.error.projected_error_relative),
          value_of(row.error.predicted_kl),
          std::int64_t{row.error.num_layers},
          unit.trace,
          unit.budget_request,
          unit.device,
          unit.kvsim_version,
          unit.policy_code};
}

std::string predicted_kl_view() {
  return fmt::format(
      "CREATE VIEW predicted_kl AS "
      "SELECT trace_id, sequence, policy, budget, mode, seed, predicted_kl, "
      "CASE WHEN predicted_kl IS NULL THEN NULL ELSE predicted_kl > {} END AS is_indicative "
      "FROM (SELECT trace_id, sequence, policy, budget, mode, seed, "
      "CASE WHEN count(predicted_kl) = max(num_layers) THEN sum(predicted_kl) END AS predicted_kl "
      "FROM layer_error GROUP BY trace_id, sequence, policy, budget, mode, seed)",
      kPredictedKlLimit);
}

TableSchema predicted_kl_schema() {
  TableSchema schema{"predicted_kl", "one policy at one budget on one sequence", "", {}, false};
  for (const char* name : {"trace_id", "sequence", "policy", "budget", "mode", "seed"}) {
    schema.columns.push_back(result_column(name));
  }
  schema.columns.push_back(result_column(
      "predicted_kl", "nats per token, the sum over layers; NULL: a layer is missing"));
  schema.columns.push_back(
      integer_column("is_indicative",
                     "1 above 0.3 nats per token, where a local prediction is indicative only")
          .in(ranges::kFlag));
  return schema;
}

TableSchema layer_error_schema() {
  using enum Preferred;
  using namespace ranges;
  return {
      "layer_error",
      "the error of a layer's output under one policy at one budget, or one selector of kvsim "
      "fetch, in absolute terms",
      "sim/results/README.md",
      {result_column("trace_id", "as in the table replay"), result_column("sequence", "the text"),
       result_column("layer", "of the model"),
       result_column("policy", "canonical spec; of kvsim fetch that of the selector"),
       result_column(
           "budget",
           "tokens per KV head, as in the table replay; of a selector the most older tokens "
           "that a step attends to"),
       result_column("mode", "as in the table replay"),
       result_column("seed", "as in the table replay"), result_column("steps", "measured steps"),
       real_column("projected_error",
                   "|sum over heads h of (o'_h - o_h) W_O,h|^2, mean over measured steps: what the "
                   "layer adds to the residual stream is off by this, squared; NULL if the trace "
                   "has no output_projection")
           .in(kNotNegative, lower, "squared norm")
           .open_loop()
           .summed(),
       real_column("projected_error_relative",
                   "projected_error over the mean of |residual|^2; NULL if the trace has no "
                   "residual")
           .in(kNotNegative, lower)
           .open_loop(),
       result_column(
           "predicted_kl",
           "the sum over heads of the column in the table replay, in nats per token; NULL "
           "if the trace has no output_score_grad"),
       integer_column("num_layers", "of the model: the view predicted_kl needs a row for each")
           .in(kFromOne, neither, "layers"),
       result_column("trace", "the file, as named by the user"),
       result_column("budget_request", "the budget, as written by the user"),
       result_column("device", "that computed the row"),
       result_column("kvsim_version", "the release and source revision that wrote the row"),
       result_column("policy_code", "a digest of the policy's code and the engine's version")}};
}

void insert_layer_errors(SQLite::Database& connection, const std::vector<LayerErrorRow>& rows,
                         const Run* run, const std::string& file) {
  if (rows.empty()) return;
  const TableSchema schema = layer_error_schema();
  create_table(connection, schema, file);
  renew_view(connection, "predicted_kl", predicted_kl_view());
  insert_rows(connection, schema, rows, run, layer_error_values);
}

void remove_outdated_layer_errors(SQLite::Database& connection,
                                  const std::vector<Result>& results) {
  if (!connection.tableExists("layer_error")) return;
  SQLite::Statement remove(
      connection,
      fmt::format("DELETE FROM layer_error WHERE {} AND policy = ? AND budget = ? AND policy_code "
                  "IS NOT ?",
                  kOfLayer));
  for (const Result& row : results) {
    bind_layer(remove, row);
    remove.bind(kPlacesOfLayer + 1, row.policy);
    remove.bind(kPlacesOfLayer + 2, row.budget);
    remove.bind(kPlacesOfLayer + 3, row.policy_code);
    remove.exec();
    remove.reset();
  }
}

std::vector<LayerErrorRow> layer_errors_of(SQLite::Database& connection, const std::string& policy,
                                           const std::string& file) {
  std::vector<LayerErrorRow> rows;
  if (!connection.tableExists("layer_error")) return rows;
  const std::vector<std::string> names{"trace_id",
                                       "sequence",
                                       "layer",
                                       "policy",
                                       "budget",
                                       "mode",
                                       "seed",
                                       "steps",
                                       "budget_request",
                                       "projected_error",
                                       "projected_error_relative",
                                       "predicted_kl",
                                       "num_layers"};
  SQLite::Statement query(connection,
                          fmt::format("SELECT {} FROM layer_error WHERE policy = ? "
                                      "ORDER BY trace_id, sequence, layer, budget, mode, seed",
                                      fmt::join(names, ", ")));
  query.bind(1, policy);
  const ValueCheck check(file, "layer_error", columns_named(connection, "layer_error", names));
  const auto number = [&](int column) {
    const SQLite::Column found = query.getColumn(column);
    return found.isNull() ? std::nullopt : std::optional(found.getDouble());
  };
  while (query.executeStep()) {
    check(read_values(query));
    LayerErrorRow& read = rows.emplace_back();
    read.row.trace_id = query.getColumn(0).getString();
    read.row.sequence = query.getColumn(1).getString();
    read.row.layer = query.getColumn(2).getInt64();
    read.row.policy = policy;
    read.row.budget = query.getColumn(4).getInt64();
    read.row.mode = query.getColumn(5).getString();
    read.row.seed = query.getColumn(6).getInt64();
    read.row.steps = query.getColumn(7).getInt64();
    read.row.budget_request = query.getColumn(8).getString();
    read.error = {number(9), number(10), number(11), query.getColumn(12).getInt()};
  }
  return rows;
}

std::map<std::pair<std::string, std::int64_t>, std::string> finished_layers(
    SQLite::Database& connection, const Result& key) {
  std::map<std::pair<std::string, std::int64_t>, std::string> finished;
  if (!connection.tableExists("layer_error")) return finished;
  SQLite::Statement query(
      connection,
      fmt::format("SELECT policy, budget, policy_code FROM layer_error WHERE {}", kOfLayer));
  bind_layer(query, key);
  while (query.executeStep()) {
    finished[{query.getColumn(0).getString(), query.getColumn(1).getInt64()}] =
        query.getColumn(2).getString();
  }
  return finished;
}

}  // namespace kvsim
