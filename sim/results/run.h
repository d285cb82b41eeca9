#pragma once

#include <chrono>
#include <cstddef>
#include <string>

#include "sim/results/column.h"

namespace SQLite {
class Database;
}

namespace kvsim {

/// RunLabels::shard is 1/1 to this.
constexpr int kMostShards = 1'000'000;

/// What a command says of itself to a result file: columns of the table `run`.
struct RunLabels {
  std::string command;
  std::string device;
  int threads = 1;
  std::string shard = {};  ///< "3/16"; empty: it does all of its work
  std::string study = {};  ///< what all its shards have in common; empty without shards
};

/// A command that writes to a result file: a row of the table `run`.
struct Run {
  std::string run_id;   ///< the time at which it started, and random digits
  std::string started;  ///< UTC, ISO 8601
  std::string host;
  RunLabels labels;
  std::chrono::steady_clock::time_point clock;  ///< when it started
};

/// A run that starts now on this host.
Run start_run(RunLabels labels);

TableSchema run_schema();

/// Creates the table `run` if it is missing, and gives that of an earlier version the columns that
/// it lacks.
void create_run_table(SQLite::Database& connection);

/// Adds the run, which has written no rows yet and is not finished, after create_run_table().
void insert_run(SQLite::Database& connection, const Run& run);

/// Counts rows that the run has written, and the seconds that it took until now. In the transaction
/// of these rows, so that the run of a killed program is right, too.
void count_rows(SQLite::Database& connection, const Run& run, std::size_t rows);

/// Marks the run as finished: the file holds all that its command asked for.
void finish_run(SQLite::Database& connection, const Run& run);

}  // namespace kvsim
