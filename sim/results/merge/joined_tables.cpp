#include "sim/results/merge/joined_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "sim/base/errors.h"
#include "sim/results/database.h"
#include "sim/results/replay_table.h"
#include "sim/results/result_tables.h"

namespace kvsim {
namespace {

constexpr const char* kThisVersion = "this version of kvsim";

/// Whether a file of an earlier version may lack the column.
bool may_lack(const std::string& table, const ColumnShape& column) {
  static const std::set<std::string> every{"label", "policy_code", "run_id"};
  static const std::set<std::string> of_run{"shard", "study", "finished"};
  if (column.key > 0) return false;
  if (table == "replay" || table == "certificate") return true;
  return (table == "run" ? of_run : every).contains(column.name);
}

[[noreturn]] void refuse(const std::string& table, const std::string& what) {
  throw DataError(
      fmt::format("table {}: {}; make the older file again with the current version", table, what));
}

/// Throws unless `table` of `file` fits `other` of the file `from`.
void check_fits(const TableShape& table, const std::string& file, const TableShape& other,
                const std::string& from) {
  if (table.key() != other.key()) {
    refuse(table.name,
           fmt::format("its key is ({}) in {} and ({}) in {}", fmt::join(table.key(), ", "), file,
                       fmt::join(other.key(), ", "), from));
  }
  for (const ColumnShape& column : table.columns) {
    const ColumnShape* same = other.find(column.name);
    if (same != nullptr && same->type != column.type) {
      refuse(table.name, fmt::format("the column {} is {} in {} and {} in {}", column.name,
                                     column.type, file, same->type, from));
    }
    if (same == nullptr && (from == kThisVersion || !may_lack(table.name, column))) {
      refuse(table.name,
             fmt::format("{} has the column {}, which that of {} lacks", file, column.name, from));
    }
  }
  for (const ColumnShape& column : other.columns) {
    if (table.find(column.name) != nullptr || may_lack(table.name, column)) continue;
    refuse(table.name,
           fmt::format("{} has the column {}, which that of {} lacks", from, column.name, file));
  }
}

}  // namespace

JoinedTables::JoinedTables() {
  const Database present;
  present.run([&](SQLite::Database& connection) {
    for (const TableSchema& schema : result_tables()) connection.exec(create_statement(schema));
    for (TableShape& table : tables_of(connection)) {
      const std::string name = table.name;
      const std::size_t width = table.columns.size();
      tables_[name] = {std::move(table), width, kThisVersion, true, name == "replay"};
    }
  });
}

bool JoinedTables::widen(Joined& joined, const TableShape& table) {
  const std::size_t width = table.columns.size();
  // Of equally wide forms the same one, in whatever order the files come.
  if (width > joined.width || (width == joined.width && table.sql < joined.shape.sql)) {
    joined.shape.sql = table.sql;
    joined.width = width;
  }
  bool is_new = false;
  for (const ColumnShape& column : table.columns) {
    if (joined.shape.find(column.name) != nullptr) continue;
    joined.shape.columns.push_back(column);
    is_new = true;
  }
  return is_new;
}

bool JoinedTables::add(const std::string& file, const std::vector<TableShape>& tables) {
  if (std::none_of(tables.begin(), tables.end(),
                   [](const TableShape& table) { return table.name == "replay"; })) {
    throw DataError(fmt::format("{}: expected a result file, found {}; leave it out", file,
                                tables.empty() ? "an empty file" : "one without a table replay"));
  }
  bool is_new = false;
  for (const TableShape& table : tables) {
    if (table.key().empty()) {
      throw DataError(fmt::format("{}: expected tables with a primary key, found {} without one",
                                  file, table.name));
    }
    const auto [place, is_first] = tables_.try_emplace(table.name);
    Joined& joined = place->second;
    if (is_first) {
      joined = {table, table.columns.size(), file, false, true};
    } else {
      check_fits(table, file, joined.shape, joined.from);
    }
    is_new = is_new || !joined.is_wanted || is_first;
    joined.is_wanted = true;
    if (!joined.of_this_version && widen(joined, table)) is_new = true;
  }
  return is_new;
}

void JoinedTables::create(SQLite::Database& connection) const {
  for (const auto& [name, joined] : tables_) {
    if (!joined.is_wanted) continue;
    if (columns_of(connection, name).empty()) {
      connection.exec(joined.shape.sql);
    } else if (name == "certificate") {
      create_certificate_table(connection);
    }
    std::vector<ColumnShape> columns = joined.shape.columns;
    // In an order that does not depend on that of the files.
    if (!joined.of_this_version) std::ranges::sort(columns, {}, &ColumnShape::name);
    add_missing_columns(connection, name, columns);
  }
}

}  // namespace kvsim
