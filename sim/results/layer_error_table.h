#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "sim/results/database.h"
#include "sim/results/layer_error.h"
#include "sim/results/run.h"
#include "sim/results/table_schema.h"

namespace kvsim {

TableSchema layer_error_schema();
/// Values parallel to its columns.
std::vector<Value> layer_error_values(const LayerErrorRow& row);
/// The view `predicted_kl`.
TableSchema predicted_kl_schema();

/// The SQL of the view `predicted_kl`: the sum over the layers of a sequence, NULL if a layer of
/// the model is missing.
std::string predicted_kl_view();

/// Inserts rows, in place of those with the same key. Creates the table and the view `predicted_kl`
/// of it if they are missing; `file` is for messages.
void insert_layer_errors(SQLite::Database& connection, const std::vector<LayerErrorRow>& rows,
                         const Run* run, const std::string& file);

/// All rows of one policy, ordered by key, with what a comparison needs of their `row`.
/// Throws as ValueCheck (integrity/value_ranges.h); `file` is for messages.
std::vector<LayerErrorRow> layer_errors_of(SQLite::Database& connection, const std::string& policy,
                                           const std::string& file);

/// Removes the rows of the layers of `results` that another code made: their units have new rows.
void remove_outdated_layer_errors(SQLite::Database& connection, const std::vector<Result>& results);

/// The policy and the budget of all rows of the layer, mode and seed of `key`, with their
/// policy_code.
std::map<std::pair<std::string, std::int64_t>, std::string> finished_layers(
    SQLite::Database& connection, const Result& key);

}  // namespace kvsim
