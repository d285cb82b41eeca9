#include "sim/results/merge/row_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace kvsim {
namespace {

/// No text: the row is of an earlier version, or has no such column.
bool is_empty(const Value& value) {
  const auto* text = std::get_if<std::string>(&value);
  return std::holds_alternative<std::monostate>(value) || (text != nullptr && text->empty());
}

/// Whether the texts of `a` come before those of `b`; no text comes last.
bool comes_before(const std::vector<Value>& a, const std::vector<Value>& b,
                  const std::vector<std::size_t>& columns) {
  for (const std::size_t i : columns) {
    if (a[i] == b[i]) continue;
    if (is_empty(a[i]) || is_empty(b[i])) return is_empty(b[i]);
    return a[i] < b[i];
  }
  return false;
}

/// Whether `a` is the larger number; NULL is the smallest.
bool is_larger(const Value& a, const Value& b) {
  if (std::holds_alternative<std::monostate>(a)) return false;
  return std::holds_alternative<std::monostate>(b) || a > b;
}

}  // namespace

RowRules::RowRules(const TableShape& table) {
  static const std::set<std::string> grow{"seconds", "rows_written", "finished"};
  for (const ColumnShape& column : table.columns) {
    Rule rule = Rule::equal;
    if (column.key == 0) {
      const std::size_t place = rules_.size();
      if (table.name == "run") {
        if (grow.contains(column.name)) rule = Rule::largest;
      } else if (table.name == "about") {
        rule = Rule::text;
        texts_.push_back(place);
      } else if (column.name == "label") {
        rule = Rule::label;
      } else if (column.name == "run_id") {
        rule = Rule::provenance;
        provenance_.insert(provenance_.begin(), place);
      } else if (column.name == "trace") {
        rule = Rule::provenance;
        provenance_.push_back(place);
      }
    }
    rules_.push_back(rule);
  }
}

std::optional<std::size_t> RowRules::difference(const std::vector<Value>& stored,
                                                const std::vector<Value>& given) const {
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    if (stored[i] == given[i] || (is_empty(stored[i]) && is_empty(given[i]))) continue;
    if (rules_[i] == Rule::equal) return i;
    const bool has_two_labels = !is_empty(stored[i]) && !is_empty(given[i]);
    if (rules_[i] == Rule::label && has_two_labels) return i;
  }
  return std::nullopt;
}

bool RowRules::join(std::vector<Value>& stored, const std::vector<Value>& given,
                    std::strong_ordering later) const {
  const std::vector<Value> before = stored;
  const auto take = [&](const std::vector<std::size_t>& columns) {
    for (const std::size_t i : columns) stored[i] = given[i];
  };
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    if (rules_[i] == Rule::label && is_empty(stored[i])) stored[i] = given[i];
    if (rules_[i] == Rule::largest && is_larger(given[i], stored[i])) stored[i] = given[i];
  }
  if (comes_before(given, stored, provenance_)) take(provenance_);
  if (std::is_gt(later) || (std::is_eq(later) && comes_before(given, stored, texts_))) take(texts_);
  return stored != before;
}

}  // namespace kvsim
