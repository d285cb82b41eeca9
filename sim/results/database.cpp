#include "sim/results/database.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/errors.h"
#include "sim/results/integrity/file_version.h"
#include "sim/results/integrity/kept_digests.h"
#include "sim/results/local_disk/database_error.h"
#include "sim/results/local_disk/local_copy.h"
#include "sim/results/local_disk/open_to_read.h"
#include "traces/hdf5/input_file.h"

namespace kvsim {
namespace {

/// A log next to the file, which WAL needs, is shared memory: other machines do not see it.
void leave_wal(SQLite::Database& connection) {
  if (connection.execAndGet("PRAGMA journal_mode").getString() != "wal") return;
  SQLite::Statement(connection, "PRAGMA journal_mode = DELETE").executeStep();
}

}  // namespace

Database::Database(std::filesystem::path file, bool writing, const Scratch& scratch)
    : file_(std::move(file)) {
  if (file_.empty()) throw UsageError("the result file needs a name");
  if (const std::string found = writing ? "" : found_instead_of_file(file_); !found.empty()) {
    throw DataError(fmt::format("{}: expected a result file, found {}", file_.string(), found));
  }
  try {
    if (!writing) {
      // Readers open for writing too: they may have to roll back the transaction of a killed
      // writer.
      connection_ = open_to_read(file_);
      format_version(*connection_, file_.string());
      return;
    }
    std::filesystem::path place = std::filesystem::absolute(file_);
    const std::filesystem::path folder = scratch_folder(file_, scratch);
    if (!folder.empty()) {
      copy_ = LocalCopy::of(file_, folder, scratch);
      place = copy_->file();
    }
    connection_ = std::make_unique<SQLite::Database>(
        place, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE, kBusyMilliseconds);
    format_version(*connection_, file_.string());
    leave_wal(*connection_);
    digests_ = std::make_unique<KeptDigests>(*connection_);
  } catch (const SQLite::Exception& error) {
    connection_.reset();
    const std::filesystem::path local = copy_ ? copy_->file() : "";
    release_copy();
    if (local.empty()) throw_database_error(file_, error);
    throw_database_error(local, error, file_);
  }
}

Database::Database()
    : file_("results in memory"),
      connection_(std::make_unique<SQLite::Database>(
          ":memory:", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE)) {}

Database::~Database() {
  digests_.reset();
  connection_.reset();
  release_copy();
}

void Database::release_copy() {
  if (copy_) LocalCopy::release(std::move(copy_));
}

void Database::begin_change() {
  if (digests_) digests_->begin(*connection_, file_.string());
}

void Database::commit(SQLite::Transaction& transaction) {
  if (digests_) digests_->finish(*connection_);
  transaction.commit();
}

void Database::committed() {
  if (copy_) copy_->committed();
}

void Database::publish() {
  // What shares the copy is not finished, and has the last word.
  if (copy_ && copy_.use_count() == 1) copy_->publish();
}

std::filesystem::path Database::keep() {
  if (!copy_) return file_;
  const std::filesystem::path place = copy_->keep();
  return place == copy_->target() ? file_ : place;  // as the user wrote it
}

void Database::fail(const SQLite::Exception& error) const {
  if (!copy_) throw_database_error(file_, error);
  throw_database_error(copy_->file(), error, file_);
}

void add_missing_columns(SQLite::Database& connection, const std::string& table,
                         const std::vector<ColumnShape>& columns) {
  const std::vector<ColumnShape> made = columns_of(connection, table);
  for (const ColumnShape& column : columns) {
    if (std::ranges::find(made, column.name, &ColumnShape::name) != made.end()) continue;
    connection.exec(fmt::format("ALTER TABLE {} ADD COLUMN {} {}", sql_name(table),
                                sql_name(column.name), column.type));
  }
  watch_rows(connection, table);
}

void renew_view(SQLite::Database& connection, const std::string& name, const std::string& sql) {
  SQLite::Statement made(connection, "SELECT sql FROM sqlite_schema WHERE name = ?");
  made.bind(1, name);
  if (made.executeStep() && made.getColumn(0).getString() == sql) return;
  made.reset();
  connection.exec("DROP VIEW IF EXISTS " + name);
  connection.exec(sql);
}

Value read_value(const SQLite::Column& column) {
  if (column.isInteger()) return std::int64_t{column.getInt64()};
  if (column.isFloat()) return column.getDouble();
  if (column.isNull()) return std::monostate();
  return column.getString();
}

std::vector<Value> read_values(SQLite::Statement& query) {
  std::vector<Value> values;
  for (int i = 0; i < query.getColumnCount(); ++i) values.push_back(read_value(query.getColumn(i)));
  return values;
}

void bind_value(SQLite::Statement& statement, int index, const Value& value) {
  struct Bind {
    SQLite::Statement& statement;
    int index;
    void operator()(std::int64_t number) const { statement.bind(index, number); }
    void operator()(double number) const { statement.bind(index, number); }
    void operator()(const std::string& text) const { statement.bind(index, text); }
    void operator()(std::monostate) const { statement.bind(index); }
  };
  std::visit(Bind{statement, index}, value);
}

}  // namespace kvsim
