#include "sim/results/integrity/kept_digests.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <algorithm>
#include <charconv>

#include "sim/base/errors.h"
#include "sim/results/integrity/file_version.h"

namespace kvsim {
namespace {

int schema_version(SQLite::Database& connection) {
  return connection.execAndGet("PRAGMA schema_version").getInt();
}

void watch(SQLite::Database& connection, const TableShape& table) {
  const auto note = [&](const char* row, int sign) {
    return fmt::format("SELECT kvsim_changed({}, {}, {}, {}); ", sql_text(table.name), sign,
                       unit_expression(table, row), digest_expression(table, row));
  };
  const std::string added = note("NEW.", 1);
  const std::string removed = note("OLD.", -1);
  const auto follow = [&](const char* event, const std::string& notes) {
    const std::string name = sql_name(fmt::format("kvsim {} {}", event, table.name));
    connection.exec("DROP TRIGGER IF EXISTS temp." + name);
    connection.exec(fmt::format("CREATE TEMP TRIGGER {} AFTER {} ON main.{} BEGIN {}END", name,
                                event, sql_name(table.name), notes));
  };
  follow("INSERT", added);
  follow("DELETE", removed);
  follow("UPDATE", removed + added);
}

/// Whether the triggers of the table note all its columns.
bool is_watched(SQLite::Database& connection, const TableShape& table) {
  SQLite::Statement query(connection, "SELECT sql FROM sqlite_temp_schema WHERE name = ?");
  query.bind(1, "kvsim INSERT " + table.name);
  if (!query.executeStep()) return false;
  return query.getColumn(0).getString().find(digest_expression(table, "NEW.")) != std::string::npos;
}

}  // namespace

struct KeptDigests::Changes {
  Digests units;  ///< a number of rows may be below 0

  void add(const std::string& table, const std::string& unit, std::int64_t sign,
           const UnitDigest& digest) {
    UnitDigest& changed = units[{table, unit}];
    changed.rows += sign * digest.rows;
    changed.sum += static_cast<std::uint64_t>(sign) * digest.sum;
  }

  /// kvsim_changed(table, 1 or -1, unit, digest): a row that comes or goes.
  static void note(sqlite3_context* context, int, sqlite3_value** arguments) {
    const auto text = [&](int i) {
      const auto* found = reinterpret_cast<const char*>(sqlite3_value_text(arguments[i]));
      return std::string(found, static_cast<std::size_t>(sqlite3_value_bytes(arguments[i])));
    };
    static_cast<Changes*>(sqlite3_user_data(context))
        ->add(text(0), text(2), sqlite3_value_int64(arguments[1]),
              {1, static_cast<std::uint64_t>(sqlite3_value_int64(arguments[3]))});
    sqlite3_result_null(context);
  }

  static int refuse_commit(void* changes) {
    return static_cast<Changes*>(changes)->units.empty() ? 0 : 1;
  }

  static void forget(void* changes) { static_cast<Changes*>(changes)->units.clear(); }
};

KeptDigests::KeptDigests(SQLite::Database& connection)
    : changes_(std::make_unique<Changes>()), connection_(connection) {
  sqlite3* handle = connection.getHandle();
  add_digest_functions(connection);
  sqlite3_create_function(handle, "kvsim_changed", 4, SQLITE_UTF8, changes_.get(), Changes::note,
                          nullptr, nullptr);
  sqlite3_commit_hook(handle, Changes::refuse_commit, changes_.get());
  sqlite3_rollback_hook(handle, Changes::forget, changes_.get());
  connection.exec("PRAGMA temp_store = MEMORY");
  connection.exec("PRAGMA recursive_triggers = ON");  // else REPLACE deletes rows unnoticed
}

KeptDigests::~KeptDigests() {
  sqlite3_commit_hook(connection_.getHandle(), nullptr, nullptr);
  sqlite3_rollback_hook(connection_.getHandle(), nullptr, nullptr);
}

void KeptDigests::begin(SQLite::Database& connection, const std::string& file) {
  if (format_version(connection, file) == 0) {
    set_format_version(connection, file);
    connection.exec(create_statement(digest_schema()));
    connection.exec("DELETE FROM digest");
    watched_schema_ = written_schema_ = -1;
  }
  if (schema_version(connection) == watched_schema_) return;
  for (const TableShape& table : tables_of(connection)) {
    take(connection, table);
    watch_rows(connection, table.name);
  }
  watched_schema_ = schema_version(connection);
}

/// Gives digests to the rows of a table that another program has made.
void KeptDigests::take(SQLite::Database& connection, const TableShape& table) {
  SQLite::Statement known(connection, "SELECT 1 FROM digest WHERE table_name = ? AND unit = ?");
  known.bind(1, table.name);
  known.bind(2, kSchemaUnit);
  if (known.executeStep()) return;
  for (const auto& [unit, digest] : digests_of_rows(connection, table)) {
    changes_->units[{table.name, unit}] = digest;
  }
}

void KeptDigests::finish(SQLite::Database& connection) {
  note_schema(connection);
  if (changes_->units.empty()) return;
  SQLite::Statement find(connection,
                         "SELECT rows, digest FROM digest WHERE table_name = ? AND unit = ?");
  SQLite::Statement write(connection, "INSERT OR REPLACE INTO digest VALUES (?, ?, ?, ?)");
  SQLite::Statement remove(connection, "DELETE FROM digest WHERE table_name = ? AND unit = ?");
  for (const auto& [place, change] : changes_->units) {
    if (change == UnitDigest()) continue;
    UnitDigest digest = change;
    find.bind(1, place.first);
    find.bind(2, place.second);
    if (find.executeStep()) {
      digest.rows += find.getColumn(0).getInt64();
      digest.sum += std::strtoull(find.getColumn(1).getText(), nullptr, 16);
    }
    find.reset();
    SQLite::Statement& next = digest == UnitDigest() ? remove : write;
    next.bind(1, place.first);
    next.bind(2, place.second);
    if (&next == &write) {
      next.bind(3, digest.rows);
      next.bind(4, digest_text(digest.sum));
    }
    next.exec();
    next.reset();
  }
  changes_->units.clear();
}

/// The SQL of tables and views counts as rows that come and go, each of one unit.
void KeptDigests::note_schema(SQLite::Database& connection) {
  const int version = schema_version(connection);
  if (version == written_schema_) return;
  SQLite::Statement query(connection, "SELECT table_name, digest FROM digest WHERE unit = ?");
  query.bind(1, kSchemaUnit);
  while (query.executeStep()) {
    changes_->add(query.getColumn(0).getString(), kSchemaUnit, -1,
                  {1, std::strtoull(query.getColumn(1).getText(), nullptr, 16)});
  }
  for (const auto& [name, digest] : digests_of_schema(connection)) {
    changes_->add(name, kSchemaUnit, 1, digest);
  }
  written_schema_ = version;
}

TableSchema digest_schema() {
  return {"digest",
          "the rows of one unit in one table, as they were written; kvsim check compares",
          "",
          {text_column("table_name", "the table or view").key(),
           text_column(
               "unit",
               "the model, trace, sequence, layer and head, as JSON; schema: the SQL of the table")
               .key(),
           integer_column("rows", "how many there are").in(ranges::kCount).filled(),
           text_column("digest", "the sum of the XXH3-64 of all rows modulo 2^64, in hexadecimal")
               .filled()},
          false};
}

void watch_rows(SQLite::Database& connection, const std::string& table) {
  if (!has_digest_functions(connection)) return;
  const std::vector<TableShape> tables = tables_of(connection);
  const auto found = std::ranges::find(tables, table, &TableShape::name);
  if (found != tables.end() && !is_watched(connection, *found)) watch(connection, *found);
}

Digests kept_digests(SQLite::Database& connection, const std::string& file) {
  Digests digests;
  if (format_version(connection, file) == 0) return digests;
  SQLite::Statement query(connection, "SELECT table_name, unit, rows, digest FROM digest");
  while (query.executeStep()) {
    const std::string text = query.getColumn(3).getString();
    UnitDigest digest{query.getColumn(2).getInt64(), 0};
    const auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), digest.sum, 16);
    const std::string table = query.getColumn(0).getString();
    const std::string unit = query.getColumn(1).getString();
    if (error != std::errc() || digest_text(digest.sum) != text) {
      throw DataError(fmt::format(
          "{}: table digest, table_name='{}', unit='{}': digest: expected 16 hexadecimal digits, "
          "found '{}'; the file is damaged: restore it, or make its rows again in a new file",
          file, table, unit, text));
    }
    digests[{table, unit}] = digest;
  }
  return digests;
}

std::map<std::string, UnitDigest> digests_of_schema(SQLite::Database& connection) {
  SQLite::Statement query(connection,
                          "SELECT name, type || ' ' || sql FROM sqlite_schema WHERE type IN "
                          "('table', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'");
  std::map<std::string, UnitDigest> digests;
  while (query.executeStep()) {
    digests[query.getColumn(0).getString()] = {1, digest_of(query.getColumn(1).getString())};
  }
  return digests;
}

}  // namespace kvsim
