// The page of columns has what the tables declare.

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <set>
#include <sstream>

#include "sim/results/result_tables.h"
#include "tests/support/source_tree.h"

namespace kvsim::results_test::columns_page_test {

using Lines = std::vector<std::string>;

constexpr const char* kPage = "sim/results/columns.md";

/// A text as a cell of a table of Markdown.
std::string cell(std::string text) {
  for (std::size_t i = text.find('|'); i != std::string::npos; i = text.find('|', i)) {
    text.replace(i, 1, "&#124;");
  }
  return text;
}

std::string better(const ColumnSchema& column) {
  if (column.preferred == Preferred::neither) return "";
  return column.preferred == Preferred::higher ? "higher" : "lower";
}

/// What the page says of a table.
Lines lines_of(const TableSchema& schema) {
  Lines lines{fmt::format("## `{}`", schema.name), cell(schema.shows) + "."};
  for (const ColumnSchema& column : schema.stored_columns()) {
    lines.push_back(fmt::format("| {}`{}` | {} | {} | {} |", column.is_key ? "key " : "",
                                column.name, column.unit, better(column), cell(column.meaning)));
  }
  return lines;
}

TEST_CASE("the page of columns has what the tables declare", "[results]") {
  Lines declared;
  for (const auto* schemas : {&result_tables(), &result_views()}) {
    for (const TableSchema& schema : *schemas) {
      for (std::string& line : lines_of(schema)) declared.push_back(std::move(line));
    }
  }
  std::istringstream text(house::read(kPage));
  Lines said;
  for (std::string line; std::getline(text, line);) said.push_back(line);
  INFO("sim/results/columns.md: lines that it lacks, then rows that no table has");
  const auto less = [](const Lines& from, const Lines& others) {
    Lines left;
    const std::set<std::string> known(others.begin(), others.end());
    for (const std::string& line : from) {
      if (!known.contains(line)) left.push_back(line);
    }
    return left;
  };
  CHECK(less(declared, said) == Lines{});
  std::erase_if(said, [](const std::string& line) {
    return !line.starts_with("| `") && !line.starts_with("| key `");
  });
  CHECK(less(said, declared) == Lines{});
}

}  // namespace kvsim::results_test::columns_page_test
