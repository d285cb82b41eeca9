#include "sim/results/integrity/value_ranges.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "sim/base/errors.h"

namespace kvsim {
namespace {

constexpr double kEndless = std::numeric_limits<double>::max();
constexpr ValueRange kCount{0, kEndless, "0 or more"};
constexpr ValueRange kFromOne{1, kEndless, "1 or more"};
// Attention over 100,000s of tokens is summed in single precision.
constexpr ValueRange kShare{0, 1, "0 .. 1", 1e-4};
constexpr ValueRange kDifference{-1, 1, "-1 .. 1", 1e-4};
constexpr ValueRange kNotNegative{0, kEndless, "0 or more", 1e-4};
constexpr ValueRange kNumber{-kEndless, kEndless, "a finite number"};
constexpr ValueRange kFlag{0, 1, "0 or 1"};

const std::map<std::string, ValueRange>& ranges() {
  static const std::map<std::string, ValueRange> by_column{
      // Keys and counts.
      {"layer", kCount},
      {"kv_head", kCount},
      {"budget", kFromOne},
      {"seed", kNumber},
      {"steps", kCount},
      {"token_accesses", kCount},
      {"token_misses", kCount},
      {"bound_violations", kCount},
      {"evictions", kCount},
      {"peak_tokens", kCount},
      {"cache_bytes", kCount},
      {"ties", kCount},
      {"num_layers", kFromOne},
      {"answers", kCount},
      {"answers_right_full", kCount},
      {"answers_right", kCount},
      {"prompt_length", kCount},
      {"threads", kCount},
      {"rows_written", kCount},
      {"finished", kFlag},
      {"is_indicative", kFlag},
      // Shares.
      {"attention_recall", kShare},
      {"attention_loss", kShare},
      {"miss_rate", kShare},
      {"recall_bound", kShare},
      {"oracle_recall", kShare},
      {"regret", kDifference},
      {"top1_agreement", kShare},
      {"kept_overlap", kShare},
      // Errors, and what cannot be negative but for rounding.
      {"output_error_mean", kNotNegative},
      {"output_error_p50", kNotNegative},
      {"output_error_p95", kNotNegative},
      {"output_error_max", kNotNegative},
      {"output_error_sq", kNotNegative},
      {"predicted_kl", kNotNegative},
      {"bound_mean", kNotNegative},
      {"projected_error", kNotNegative},
      {"projected_error_relative", kNotNegative},
      {"kl_mean", kNotNegative},
      {"nll_full", kNotNegative},
      {"nll", kNotNegative},
      {"seconds", kNotNegative},
      // In the units of an oracle's cost, or differences.
      {"loss", kNumber},
      {"loss_bound", kNumber},
      {"gap", kNumber},
      {"delta_nll", kNumber},
      {"gap_closed", kNumber},
      {"low", kNumber},
      {"high", kNumber},
  };
  return by_column;
}

std::string fault(const std::string& type, const std::optional<ValueRange>& range,
                  const Value& value) {
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
  const ValueRange allowed = range.value_or(kNumber);
  // Not so of NaN either.
  if (number >= allowed.least - allowed.rounding && number <= allowed.most + allowed.rounding) {
    return "";
  }
  return fmt::format("expected {}, found {}", std::isfinite(number) ? allowed.words : kNumber.words,
                     shown(value));
}

}  // namespace

std::optional<ValueRange> range_of(const std::string& table, const std::string& column) {
  static const std::set<std::string> ours{"replay",      "certificate", "layer_error",
                                          "curve",       "run",         "sampled_interval",
                                          "closed_loop", "regret",      "predicted_kl"};
  if (column != "budget" && !ours.contains(table)) return std::nullopt;
  const auto found = ranges().find(column);
  return found == ranges().end() ? std::nullopt : std::optional(found->second);
}

std::string fault_of(const std::string& table, const std::string& column, const std::string& type,
                     const Value& value) {
  return fault(type, range_of(table, column), value);
}

ValueCheck::ValueCheck(std::string file, std::string table,
                       const std::vector<StoredColumn>& columns)
    : file_(std::move(file)), table_(std::move(table)), columns_(columns) {
  for (const StoredColumn& column : columns) ranges_.push_back(range_of(table_, column.name));
}

void ValueCheck::operator()(std::span<const Value> row) const {
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const std::string found = fault(columns_[i].type, ranges_[i], row[i]);
    if (found.empty()) continue;
    std::string key;
    for (std::size_t k = 0; k < columns_.size(); ++k) {
      if (columns_[k].is_key) key += fmt::format(", {}={}", columns_[k].name, shown(row[k]));
    }
    throw DataError(
        fmt::format("{}: table {}{}: {}: {}; the file is damaged or was changed: restore it, or "
                    "make its rows again in a new file",
                    file_, table_, key, columns_[i].name, found));
  }
}

std::vector<StoredColumn> columns_named(SQLite::Database& connection, const std::string& table,
                                        const std::vector<std::string>& names) {
  const std::vector<StoredColumn> there = columns_of(connection, table);
  std::vector<StoredColumn> columns;
  for (const std::string& name : names) {
    const auto found = std::ranges::find(there, name, &StoredColumn::name);
    columns.push_back(found != there.end() ? *found : StoredColumn{name, "", false});
  }
  return columns;
}

std::string shown(const Value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return fmt::format("'{}'", *text);
  if (const auto* number = std::get_if<double>(&value)) return fmt::format("{}", *number);
  if (const auto* number = std::get_if<std::int64_t>(&value)) return fmt::format("{}", *number);
  return "NULL";
}

}  // namespace kvsim
