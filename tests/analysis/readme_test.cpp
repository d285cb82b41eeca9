#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "analysis/analysis.h"
#include "tests/support/source_tree.h"

namespace kvsim::readme_test {

TEST_CASE("analysis: the README's table is what the registry says", "[analysis]") {
  std::string table = "| analysis | a row is | source |\n| --- | --- | --- |\n";
  for (const AnalysisInfo* info : analyses()) {
    const std::string params = Params(info->params).text();
    table += fmt::format("| `{}{}`{} | {} | {} |\n", info->name, params.empty() ? "" : ":" + params,
                         info->accepts == nullptr ? "" : " (replays)", info->shows, info->source);
  }
  INFO(table);
  const std::string marked = "<!-- analyses -->\n" + table + "<!-- end of analyses -->";
  const bool is_there = house::read("analysis/README.md").find(marked) != std::string::npos;
  CHECK(is_there);
}

}  // namespace kvsim::readme_test
