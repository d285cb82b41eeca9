#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "sim/results/database.h"
#include "sim/results/run.h"

namespace kvsim {

/// Creates the table `replay` if it is missing, and adds the columns that one of an earlier version
/// lacks, with NULL in its rows. Throws as check_replay_key().
void create_replay_table(SQLite::Database& connection, const std::string& file);

/// Throws DataError if the table `replay` of `file` has another key than ours.
void check_replay_key(SQLite::Database& connection, const std::string& file);

/// The first columns of result_columns(), separated by commas.
std::string column_names(std::size_t count);

/// All columns of result_columns() for a SELECT, NULL for one that the table lacks.
std::string readable_columns(SQLite::Database& connection);

/// The rows of a query for readable_columns(). A member keeps its default where the row is older
/// than its column. Throws as ValueCheck (integrity/value_ranges.h); `file` is for messages.
std::vector<Result> results_of(SQLite::Statement& query, const std::filesystem::path& file);

/// A condition for the rows of one unit, mode and seed, and the values of its places.
inline constexpr const char* kOfUnit =
    "trace_id = ? AND sequence = ? AND layer = ? AND kv_head = ? AND mode = ? AND seed = ?";
void bind_unit(SQLite::Statement& statement, const Result& key);

/// The same for `kOfUnit AND policy = ? AND budget = ?`.
void bind_row(SQLite::Statement& statement, const Result& key);

/// Inserts rows, in place of those with the same key, whose label stays if the new row has none.
/// Null: rows keep the run that they name.
void insert_results(SQLite::Database& connection, const std::vector<Result>& results,
                    const Run* run);

/// The table `certificate`: what oracles prove.
TableSchema certificate_schema();

/// Creates the table `certificate` if it is missing, and makes one of an earlier version anew: it
/// lacks columns, and SQLite cannot make the bound of the recall one that may be NULL.
void create_certificate_table(SQLite::Database& connection);

/// Inserts `certificates`, in place of those of `results`.
void insert_certificates(SQLite::Database& connection, const std::vector<Result>& results,
                         const std::vector<CertificateRow>& certificates, const Run* run);

}  // namespace kvsim
