#include "sim/results/run.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <random>

#include "sim/results/database.h"
#include "sim/results/local_disk/host_name.h"
#include "sim/results/table_schema.h"
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

TableSchema run_schema() {
  using namespace ranges;
  return {
      "run",
      "a command that wrote rows",
      "",
      {text_column("run_id",
                   "when it started, and random digits; the rows that it wrote have the same")
           .key(),
       text_column("started", "UTC, ISO 8601").filled(),
       real_column("seconds", "from its start until the last of its rows was written")
           .in(kNotNegative)
           .filled(),
       text_column("command", "as a shell takes it").filled(),
       text_column("kvsim_version", "the release and source revision of the program").filled(),
       text_column("host", "the machine on which it ran").filled(),
       text_column("device", "the device that computed the attention").filled(),
       integer_column("threads", "how many units it worked on at once").in(kCount).filled(),
       integer_column("rows_written", "rows of all tables, later replaced ones included")
           .in(kCount)
           .filled(),
       text_column("shard", "as in 3/16; NULL: it did all of its work"),
       text_column("study", "what all shards of the same work have in common; NULL without shards"),
       integer_column("finished", "1: the file holds all that its command asked for").in(kFlag)},
      false};
}

void create_run_table(SQLite::Database& connection) {
  const TableSchema schema = run_schema();
  connection.exec(create_statement(schema));
  add_missing_columns(connection, "run", shape_of(schema));
}

void insert_run(SQLite::Database& connection, const Run& run) {
  create_run_table(connection);
  const RunLabels& labels = run.labels;
  const auto or_null = [](const std::string& text) {
    return text.empty() ? Value(std::monostate()) : Value(text);
  };
  const std::vector<Value> row{run.run_id,
                               run.started,
                               0.0,
                               labels.command,
                               version(),
                               run.host,
                               labels.device,
                               std::int64_t{labels.threads},
                               std::int64_t{0},
                               or_null(labels.shard),
                               or_null(labels.study),
                               std::int64_t{0}};
  const TableSchema schema = run_schema();
  insert_rows(connection, {&schema, {row}}, std::monostate());
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
