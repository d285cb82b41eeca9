#include "sim/results/merge/shared_units.h"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "sim/base/errors.h"
#include "sim/results/merge/table_join.h"
#include "sim/results/policy_code.h"
#include "sim/results/regret.h"
#include "sim/results/replay_table.h"

namespace kvsim {
namespace {

constexpr std::size_t kUnitColumns = 4;
constexpr const char* kOfThisUnit = "trace_id = ? AND sequence = ? AND layer = ? AND kv_head = ?";

std::string file_of(const Result& row, const std::vector<std::string>& files,
                    const std::string& otherwise) {
  std::vector<std::string> names;
  std::vector<Value> key;
  for (const Column& column : result_columns().first(kKeyColumns)) {
    names.emplace_back(column.name);
    key.push_back(column.get(row));
  }
  const std::string found = file_with(files, "replay", names, key);
  return found.empty() ? otherwise : found;
}

}  // namespace

SharedUnits::SharedUnits(const Database& merged, const TableShape& replay) : merged_(merged) {
  for (const Column& column : result_columns().first(kUnitColumns)) {
    places_.push_back(static_cast<std::size_t>(replay.find(column.name) - replay.columns.data()));
  }
}

void SharedUnits::before(const std::vector<Value>& row) {
  Unit unit;
  for (const std::size_t place : places_) unit.push_back(row[place]);
  if (unit == unit_) return;
  unit_ = std::move(unit);
  is_there_ = merged_.run([&](SQLite::Database& connection) {
    SQLite::Statement query(connection,
                            fmt::format("SELECT 1 FROM replay WHERE {} LIMIT 1", kOfThisUnit));
    bind_values(query, unit_);
    return query.executeStep();
  });
}

void SharedUnits::added() {
  if (is_there_) shared_.insert(unit_);
}

void SharedUnits::next_file() { unit_.clear(); }

void SharedUnits::check(const std::vector<std::string>& files) const {
  for (const Unit& unit : shared_) {
    std::vector<Result> rows = merged_.run([&](SQLite::Database& connection) {
      SQLite::Statement query(connection, fmt::format("SELECT {} FROM replay WHERE {}",
                                                      readable_columns(connection), kOfThisUnit));
      bind_values(query, unit);
      return results_of(query, merged_.file());
    });
    std::map<std::pair<std::string, std::int64_t>, std::vector<Result>> of_mode;
    for (Result& row : rows) {
      if (is_current(row)) of_mode[{row.mode, row.seed}].push_back(std::move(row));
    }
    for (const auto& [mode, comparable] : of_mode) {
      try {
        check_bounds(comparable);
      } catch (const BoundExceeded& error) {
        const std::string merged = merged_.file().string();
        throw DataError(fmt::format("{} and {}: {}", file_of(error.row(), files, merged),
                                    file_of(error.bound(), files, merged), error.what()));
      }
    }
  }
}

}  // namespace kvsim
