#include "sim/results/run.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <random>

#include "sim/results/database.h"
#include "sim/results/local_disk/host_name.h"
#include "sim/results/version.h"

namespace kvsim {
Run start_run(RunLabels labels) {
  const std::tm now = fmt::gmtime(std::time(nullptr));
  std::random_device random;
  return {.run_id = fmt::format("{:%Y%m%dT%H%M%SZ}-{:08x}", now, random()),
          .started = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", now),
          .host = host_name(),
          .labels = std::move(labels),
          .clock = std::chrono::steady_clock::now()};
}

void create_run_table(SQLite::Database& connection) {
  connection.exec(
      "CREATE TABLE IF NOT EXISTS run (run_id TEXT NOT NULL PRIMARY KEY, started TEXT NOT NULL, "
      "seconds REAL NOT NULL, command TEXT NOT NULL, kvsim_version TEXT NOT NULL, host TEXT NOT "
      "NULL, device TEXT NOT NULL, threads INTEGER NOT NULL, rows_written INTEGER NOT NULL, shard "
      "TEXT, study TEXT, finished INTEGER) WITHOUT ROWID");
}

void insert_run(SQLite::Database& connection, const Run& run) {
  create_run_table(connection);
  add_missing_columns(connection, "run",
                      {{"shard", "TEXT"}, {"study", "TEXT"}, {"finished", "INTEGER"}});
  SQLite::Statement insert(
      connection,
      "INSERT INTO run (run_id, started, seconds, command, kvsim_version, host, device, threads, "
      "rows_written, shard, study, finished) VALUES (?, ?, 0.0, ?, ?, ?, ?, ?, 0, ?, ?, 0)");
  const RunLabels& labels = run.labels;
  int index = 1;
  for (const std::string& text :
       {run.run_id, run.started, labels.command, version(), run.host, labels.device}) {
    insert.bind(index++, text);
  }
  insert.bind(index++, labels.threads);
  for (const std::string& text : {labels.shard, labels.study}) {
    bind_value(insert, index++, text.empty() ? Value(std::monostate()) : Value(text));
  }
  insert.exec();
}

void count_rows(SQLite::Database& connection, const Run& run, std::size_t rows) {
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - run.clock;
  SQLite::Statement update(
      connection, "UPDATE run SET rows_written = rows_written + ?, seconds = ? WHERE run_id = ?");
  update.bind(1, static_cast<std::int64_t>(rows));
  update.bind(2, taken.count());
  update.bind(3, run.run_id);
  update.exec();
}

void finish_run(SQLite::Database& connection, const Run& run) {
  SQLite::Statement update(connection, "UPDATE run SET finished = 1 WHERE run_id = ?");
  update.bind(1, run.run_id);
  update.exec();
  count_rows(connection, run, 0);
}

}  // namespace kvsim
