#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace SQLite {
class Database;
}

namespace kvsim {

/// A command that writes to a result file: a row of the table `run`.
struct Run {
  std::string run_id;   ///< the time at which it started, and random digits
  std::string started;  ///< UTC, ISO 8601
  std::string command;
  std::string host;
  std::string device;
  int threads = 1;
  std::chrono::steady_clock::time_point clock;  ///< when it started
};

/// A run that starts now on this host.
Run start_run(std::string command, std::string device, int threads);

/// Adds the run, which has written no rows yet, and the table if it is missing.
void insert_run(SQLite::Database& connection, const Run& run);

/// Counts rows that the run has written, and the seconds that it took until now. In the transaction
/// of these rows, so that the run of a killed program is right, too.
void count_rows(SQLite::Database& connection, const Run& run, std::size_t rows);

}  // namespace kvsim
