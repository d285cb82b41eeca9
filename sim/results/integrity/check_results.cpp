#include "sim/results/integrity/check_results.h"

#include <fmt/format.h>

#include <array>
#include <fstream>
#include <set>
#include <string_view>

#include "sim/base/errors.h"
#include "sim/results/integrity/file_version.h"
#include "sim/results/integrity/kept_digests.h"
#include "sim/results/integrity/value_ranges.h"

namespace kvsim {
namespace {

constexpr std::size_t kCheckedRowsPerPoll = 4096;
constexpr const char* kFix =
    "the file is damaged, or another program changed it: restore it, or make its rows again in a "
    "new file";

void check_structure(SQLite::Database& connection, const std::string& file) {
  SQLite::Statement check(connection, "PRAGMA integrity_check(1)");
  if (!check.executeStep() || check.getColumn(0).getString() == "ok") return;
  throw DataError(
      fmt::format("{}: expected a sound SQLite file, found: {}; restore it, or make its "
                  "rows again in a new file",
                  file, check.getColumn(0).getString()));
}

std::int64_t check_values(SQLite::Database& connection, const std::string& file,
                          const std::string& table, const std::function<void()>& poll) {
  const ValueCheck check(file, table, columns_of(connection, table));
  SQLite::Statement query(connection, "SELECT * FROM " + sql_name(table));
  std::int64_t rows = 0;
  while (query.executeStep()) {
    check(read_values(query));
    if (++rows % kCheckedRowsPerPoll == 0 && poll) poll();
  }
  return rows;
}

std::string described(const UnitDigest* digest) {
  if (digest == nullptr) return "none";
  return fmt::format("{} row{} with digest {}", digest->rows, digest->rows == 1 ? "" : "s",
                     digest_text(digest->sum));
}

[[noreturn]] void refuse(const std::string& file, const std::string& table, const std::string& unit,
                         const UnitDigest* expected, const UnitDigest* found) {
  throw DataError(fmt::format("{}: table {}, unit {}: rows: expected {}, found {}; {}", file, table,
                              unit, described(expected), described(found), kFix));
}

/// Throws unless the units of a table are those that `kept` has, and takes them from there.
std::int64_t check_units(const std::string& file, const std::string& table,
                         const std::map<std::string, UnitDigest>& found, Digests& kept) {
  for (const auto& [unit, digest] : found) {
    const auto expected = kept.find({table, unit});
    if (expected == kept.end()) refuse(file, table, unit, nullptr, &digest);
    if (expected->second != digest) refuse(file, table, unit, &expected->second, &digest);
    kept.erase(expected);
  }
  return static_cast<std::int64_t>(found.size());
}

/// Takes the digests of SQL from `kept`. Returns the tables and views that have one; another
/// program may have made others.
std::set<std::string> check_schema(SQLite::Database& connection, const std::string& file,
                                   Digests& kept) {
  std::set<std::string> known;
  for (const auto& [name, digest] : digests_of_schema(connection)) {
    const auto expected = kept.find({name, kSchemaUnit});
    if (expected == kept.end()) continue;
    if (expected->second != digest) {
      throw DataError(fmt::format("{}: {}: SQL: expected digest {}, found {}; {}", file, name,
                                  digest_text(expected->second.sum), digest_text(digest.sum),
                                  kFix));
    }
    kept.erase(expected);
    known.insert(name);
  }
  if (!known.contains("replay")) {
    throw DataError(
        fmt::format("{}: table digest: expected digests of the table replay, found "
                    "none; {}",
                    file, kFix));
  }
  return known;
}

CheckedResults looked_at(SQLite::Database& connection, const std::string& file,
                         const std::function<void()>& poll) {
  const SQLite::Transaction all_at_one_time(connection);
  check_structure(connection, file);
  const std::vector<TableShape> tables = tables_of(connection);
  if (!connection.tableExists("replay")) {
    throw DataError(
        fmt::format("{}: expected a result file, found one without a table replay; "
                    "kvsim sweep writes one",
                    file));
  }
  CheckedResults checked{.format = format_version(connection, file)};
  for (const TableShape& table : tables) {
    checked.tables.push_back({table.name, check_values(connection, file, table.name, poll)});
  }
  return checked;
}

}  // namespace

bool is_result_file(const std::filesystem::path& file) {
  constexpr std::string_view kStart("SQLite format 3\0", 16);
  std::array<char, kStart.size()> bytes{};
  std::ifstream(file, std::ios::binary).read(bytes.data(), bytes.size());
  return std::string_view(bytes.data(), bytes.size()) == kStart;
}

std::map<std::string, std::int64_t> check_digests(SQLite::Database& connection,
                                                  const std::string& file,
                                                  const std::function<void()>& poll) {
  std::map<std::string, std::int64_t> units;
  if (format_version(connection, file) == 0) return units;
  Digests kept = kept_digests(connection, file);
  const std::set<std::string> known = check_schema(connection, file, kept);
  for (const TableShape& table : tables_of(connection)) {
    if (!known.contains(table.name)) continue;
    units[table.name] =
        check_units(file, table.name, digests_of_rows(connection, table, poll), kept);
  }
  if (!kept.empty()) {
    const auto& [place, digest] = *kept.begin();
    refuse(file, place.first, place.second, &digest, nullptr);
  }
  return units;
}

CheckedResults check_results(const std::filesystem::path& file, const std::function<void()>& poll) {
  const Database database(file, false);
  return database.run([&](SQLite::Database& connection) {
    add_digest_functions(connection);
    CheckedResults checked = looked_at(connection, file.string(), poll);
    const auto units = check_digests(connection, file.string(), poll);
    for (CheckedTable& table : checked.tables) {
      const auto found = units.find(table.name);
      table.has_digests = found != units.end();
      if (table.has_digests) table.units = found->second;
    }
    return checked;
  });
}

void check_table(const std::filesystem::path& file, const std::string& table) {
  const Database database(file, false);
  database.run(
      [&](SQLite::Database& connection) { check_values(connection, file.string(), table, {}); });
}

}  // namespace kvsim
