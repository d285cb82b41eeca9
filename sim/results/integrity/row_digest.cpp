#include "sim/results/integrity/row_digest.h"

#include <fmt/format.h>
#include <sqlite3.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>

namespace kvsim {
namespace {

static_assert(std::endian::native == std::endian::little, "digests are of little-endian values");

constexpr std::size_t kColumnsOfCall = 32;  // SQLite functions take up to 100 arguments
constexpr std::size_t kRowsPerPoll = 4096;

template <class Number>
void append(std::string& bytes, char type, Number number) {
  bytes += type;
  bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
}

void append_value(std::string& bytes, sqlite3_value* value) {
  switch (sqlite3_value_type(value)) {
    case SQLITE_INTEGER:
      append(bytes, 'i', std::int64_t{sqlite3_value_int64(value)});
      return;
    case SQLITE_FLOAT:
      append(bytes, 'r', sqlite3_value_double(value) + 0.0);  // SQLite does not keep the sign of 0
      return;
    default:
      const bool is_text = sqlite3_value_type(value) == SQLITE_TEXT;
      const void* data = sqlite3_value_blob(value);
      const std::int64_t size = sqlite3_value_bytes(value);
      append(bytes, is_text ? 't' : 'b', size);
      if (size > 0) bytes.append(static_cast<const char*>(data), static_cast<std::size_t>(size));
  }
}

/// kvsim_values(name, value, name, value, ...): their bytes.
void values_function(sqlite3_context* context, int count, sqlite3_value** arguments) {
  thread_local std::string bytes;
  bytes.clear();
  for (int i = 0; i + 1 < count; i += 2) {
    if (sqlite3_value_type(arguments[i + 1]) == SQLITE_NULL) continue;
    const auto* name = reinterpret_cast<const char*>(sqlite3_value_text(arguments[i]));
    bytes.append(name, std::strlen(name) + 1);
    append_value(bytes, arguments[i + 1]);
  }
  sqlite3_result_blob64(context, bytes.data(), bytes.size(), SQLITE_TRANSIENT);
}

/// kvsim_digest(values, ...): of all bytes, one after the other.
void digest_function(sqlite3_context* context, int count, sqlite3_value** arguments) {
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  for (int i = 0; i < count; ++i) {
    const void* data = sqlite3_value_blob(arguments[i]);
    const int size = sqlite3_value_bytes(arguments[i]);
    if (size > 0) XXH3_64bits_update(&state, data, static_cast<std::size_t>(size));
  }
  sqlite3_result_int64(context, static_cast<std::int64_t>(XXH3_64bits_digest(&state)));
}

bool names_unit(const ColumnShape& column, const std::string& table) {
  static const std::set<std::string> names{"model_id", "trace_id", "sequence",
                                           "layer",    "kv_head",  "query_head"};
  if (column.key == 0) return false;
  if (table == "run") return column.name == "run_id";
  if (table == "about") return column.name == "table_name";
  return names.contains(column.name);
}

}  // namespace

std::string digest_text(std::uint64_t sum) { return fmt::format("{:016x}", sum); }

std::uint64_t digest_of(const std::string& bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

void add_digest_functions(SQLite::Database& connection) {
  const auto add = [&](const char* name, auto function) {
    sqlite3_create_function(connection.getHandle(), name, -1, SQLITE_UTF8 | SQLITE_DETERMINISTIC,
                            nullptr, function, nullptr, nullptr);
  };
  add("kvsim_values", values_function);
  add("kvsim_digest", digest_function);
}

bool has_digest_functions(SQLite::Database& connection) {
  SQLite::Statement query(connection,
                          "SELECT 1 FROM pragma_function_list WHERE name = 'kvsim_digest'");
  return query.executeStep();
}

std::string sql_text(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("''") : std::string(1, c);
  return quoted + '\'';
}

std::string unit_expression(const TableShape& table, const std::string& row) {
  std::vector<std::string> parts;
  for (const ColumnShape& column : table.columns) {
    if (!names_unit(column, table.name)) continue;
    parts.push_back(sql_text(column.name));
    parts.push_back(row + sql_name(column.name));
  }
  return fmt::format("json_object({})", fmt::join(parts, ", "));
}

std::string digest_expression(const TableShape& table, const std::string& row) {
  std::vector<std::string> names;
  for (const ColumnShape& column : table.columns) names.push_back(column.name);
  std::sort(names.begin(), names.end());
  std::vector<std::string> calls;
  for (std::size_t first = 0; first < names.size(); first += kColumnsOfCall) {
    std::vector<std::string> parts;
    for (std::size_t i = first; i < std::min(names.size(), first + kColumnsOfCall); ++i) {
      parts.push_back(sql_text(names[i]));
      parts.push_back(row + sql_name(names[i]));
    }
    calls.push_back(fmt::format("kvsim_values({})", fmt::join(parts, ", ")));
  }
  return fmt::format("kvsim_digest({})", fmt::join(calls, ", "));
}

std::map<std::string, UnitDigest> digests_of_rows(SQLite::Database& connection,
                                                  const TableShape& table,
                                                  const std::function<void()>& poll) {
  SQLite::Statement query(connection, fmt::format("SELECT {}, {} FROM {}", unit_expression(table),
                                                  digest_expression(table), sql_name(table.name)));
  std::map<std::string, UnitDigest> digests;
  for (std::size_t count = 1; query.executeStep(); ++count) {
    UnitDigest& digest = digests[query.getColumn(0).getString()];
    ++digest.rows;
    digest.sum += static_cast<std::uint64_t>(query.getColumn(1).getInt64());
    if (poll && count % kRowsPerPoll == 0) poll();
  }
  return digests;
}

}  // namespace kvsim
