#include "sim/results/integrity/value_ranges.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/base/errors.h"
#include "sim/results/result_tables.h"

namespace kvsim {
namespace {

/// The range of a column of this version's tables; of all others `budget` alone has one.
ValueRange range_of(const std::string& table, const std::string& column) {
  const TableSchema* schema = find_table(table);
  if (schema == nullptr) return column == "budget" ? ranges::kFromOne : ranges::kNumber;
  const auto found = std::ranges::find(schema->columns, column, &ColumnSchema::name);
  return found == schema->columns.end() ? ranges::kNumber : found->range;
}

/// What is wrong with a value of a column of this SQL type ("" of some views: any), as in "expected
/// 0 .. 1, found 2"; empty if nothing is.
std::string fault(const std::string& type, const ValueRange& allowed, const Value& value) {
  if (std::holds_alternative<std::monostate>(value)) return "";
  const bool is_text = std::holds_alternative<std::string>(value);
  const bool is_integer = std::holds_alternative<std::int64_t>(value);
  const bool is_other_type = (type == "TEXT" && !is_text) || (type == "INTEGER" && !is_integer) ||
                             (type == "REAL" && is_text);
  if (is_other_type) {
    const char* expected = type == "TEXT" ? "a text" : type == "REAL" ? "a number" : "an integer";
    return fmt::format("expected {}, found {}", expected, shown(value));
  }
  if (is_text) return "";
  const double number =
      is_integer ? static_cast<double>(std::get<std::int64_t>(value)) : std::get<double>(value);
  // Not so of NaN either.
  if (number >= allowed.least - allowed.rounding && number <= allowed.most + allowed.rounding) {
    return "";
  }
  return fmt::format("expected {}, found {}",
                     std::isfinite(number) ? allowed.words : ranges::kNumber.words, shown(value));
}

}  // namespace

ValueCheck::ValueCheck(std::string file, std::string table, const std::vector<ColumnShape>& columns)
    : file_(std::move(file)), table_(std::move(table)), columns_(columns) {
  for (const ColumnShape& column : columns) ranges_.push_back(range_of(table_, column.name));
}

void ValueCheck::operator()(std::span<const Value> row) const {
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const std::string found = fault(columns_[i].type, ranges_[i], row[i]);
    if (found.empty()) continue;
    std::string key;
    for (std::size_t k = 0; k < columns_.size(); ++k) {
      if (columns_[k].key > 0) key += fmt::format(", {}={}", columns_[k].name, shown(row[k]));
    }
    throw DataError(
        fmt::format("{}: table {}{}: {}: {}; the file is damaged or was changed: restore it, or "
                    "make its rows again in a new file",
                    file_, table_, key, columns_[i].name, found));
  }
}

std::string shown(const Value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return fmt::format("'{}'", *text);
  if (const auto* number = std::get_if<double>(&value)) return fmt::format("{}", *number);
  if (const auto* number = std::get_if<std::int64_t>(&value)) return fmt::format("{}", *number);
  return "NULL";
}

}  // namespace kvsim
