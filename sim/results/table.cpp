#include "sim/results/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string_view>

#include "sim/base/printable.h"

namespace kvsim {
namespace {

std::string csv_quoted(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

/// Whether a spreadsheet may take the text for a formula. Texts that look as if they had been
/// marked are marked too, so that the mark can be taken away again.
bool may_be_formula(const std::string& text) {
  const std::size_t first = text.find_first_not_of('\'');
  return first != std::string::npos &&
         std::string_view("=+-@\t\r").find(text[first]) != std::string_view::npos;
}

std::string csv_text(const std::string& text) {
  if (may_be_formula(text)) return csv_quoted('\'' + text);
  return csv_quoted(text);
}

std::string csv_field(const Value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return csv_text(*text);
  if (const auto* number = std::get_if<double>(&value)) return fmt::format("{}", *number);
  if (const auto* number = std::get_if<std::int64_t>(&value)) return fmt::format("{}", *number);
  return "";
}

std::string aligned_field(const Value& value) {
  if (const auto* number = std::get_if<double>(&value)) {
    const double size = std::abs(*number);
    const bool is_short = size == 0 || (size >= 1e-3 && size < 1e6);
    return is_short ? fmt::format("{:.4f}", *number) : fmt::format("{:.1e}", *number);
  }
  if (const auto* text = std::get_if<std::string>(&value)) return printable(*text);
  if (const auto* number = std::get_if<std::int64_t>(&value)) return fmt::format("{}", *number);
  return "-";
}

nlohmann::ordered_json to_json(const Value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* number = std::get_if<double>(&value)) return *number;
  if (const auto* number = std::get_if<std::int64_t>(&value)) return *number;
  return nullptr;
}

}  // namespace

Table to_table(std::span<const Result> results) {
  Table table;
  for (const Column& column : result_columns()) table.columns.emplace_back(column.name);
  for (const Result& result : results) {
    std::vector<Value>& row = table.rows.emplace_back();
    for (const Column& column : result_columns()) row.push_back(column.get(result));
  }
  return table;
}

std::vector<std::string> write_csv(std::ostream& out, const Table& table) {
  std::vector<std::string> marked;
  std::vector<std::string> names;
  for (const std::string& name : table.columns) names.push_back(csv_text(name));
  out << fmt::format("{}\n", fmt::join(names, ","));
  for (const std::vector<Value>& row : table.rows) {
    std::vector<std::string> fields;
    for (const Value& value : row) fields.push_back(csv_field(value));
    out << fmt::format("{}\n", fmt::join(fields, ","));
    for (std::size_t i = 0; i < row.size(); ++i) {
      const auto* text = std::get_if<std::string>(&row[i]);
      if (text == nullptr || !may_be_formula(*text)) continue;
      const std::string& name = table.columns[i];
      if (std::ranges::find(marked, name) == marked.end()) marked.push_back(name);
    }
  }
  return marked;
}

void write_json(std::ostream& out, const Table& table) {
  out << "[";
  const char* separator = "\n";
  for (const std::vector<Value>& row : table.rows) {
    nlohmann::ordered_json object;
    for (std::size_t i = 0; i < row.size(); ++i) {
      object[table.columns[i]] = to_json(row[i]);
    }
    using Json = nlohmann::ordered_json;
    out << separator << object.dump(-1, ' ', false, Json::error_handler_t::replace);
    separator = ",\n";
  }
  out << "\n]\n";
}

void write_aligned(std::ostream& out, const Table& table) {
  std::vector<std::size_t> widths;
  std::vector<std::string> names;
  for (const std::string& name : table.columns) names.push_back(printable(name));
  for (const std::string& name : names) widths.push_back(name.size());
  std::vector<std::vector<std::string>> cells;
  for (const std::vector<Value>& row : table.rows) {
    std::vector<std::string>& line = cells.emplace_back();
    for (std::size_t i = 0; i < row.size(); ++i) {
      line.push_back(aligned_field(row[i]));
      widths[i] = std::max(widths[i], line.back().size());
    }
  }
  const auto write_line = [&](const std::vector<std::string>& line) {
    std::string text;
    for (std::size_t i = 0; i < line.size(); ++i) {
      const bool left =
          table.rows.empty() || std::holds_alternative<std::string>(table.rows.front()[i]);
      if (i > 0) text += "  ";
      text += left ? fmt::format("{:<{}}", line[i], widths[i])
                   : fmt::format("{:>{}}", line[i], widths[i]);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    out << text << '\n';
  };
  write_line(names);
  for (const std::vector<std::string>& line : cells) write_line(line);
}

}  // namespace kvsim
