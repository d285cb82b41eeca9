#include <fmt/format.h>

#include <algorithm>
#include <iostream>

#include "sim/base/errors.h"
#include "sim/base/nearest.h"
#include "sim/cli/options.h"
#include "sim/cli/print_csv.h"
#include "sim/cli/python_package.h"
#include "sim/results/store.h"
#include "sim/sweep/request/lists.h"

namespace kvsim::cli {
namespace {

// Throws UsageError for a column that the table does not have.
void leave_out(Table& table, const std::vector<std::string>& columns) {
  for (const std::string& column : columns) {
    const auto found = std::find(table.columns.begin(), table.columns.end(), column);
    if (found == table.columns.end()) {
      throw UsageError(fmt::format("--without: there is no column '{}'; did you mean '{}'?", column,
                                   nearest(column, table.columns)));
    }
    const auto index = found - table.columns.begin();
    table.columns.erase(found);
    for (std::vector<Value>& row : table.rows) row.erase(row.begin() + index);
  }
}

}  // namespace

int run_export(const Verb& verb, const std::vector<std::string>& arguments) {
  po::options_description options("Options");
  options.add_options()("table", po::value<std::string>()->default_value("replay"),
                        "which table; of Parquet and Arrow also all: a file for each")(
      "without", po::value<std::string>(),
      "columns to leave out, separated by commas: run_id,trace are what equal results differ in")(
      "format", po::value<std::string>()->default_value("csv"),
      "csv or json, which are printed; parquet or arrow, which need pyarrow")(
      "output,o", po::value<std::string>(),
      "of parquet and arrow: the file to write, or with --table all the folder");
  const auto values = parse(verb, arguments, options, {"RESULTS.sqlite"});
  if (!values) return 0;
  const std::string format = choice_from(*values, "format", {"csv", "json", "parquet", "arrow"});
  const std::string file = positional_from(verb, *values, "RESULTS.sqlite");
  if (format == "parquet" || format == "arrow") {
    required_from(verb, *values, "output");
    { const ResultStore store(file, ResultStore::Access::read); }  // throws if it is none
    run_in_python("kvsim.results.export", "writes Parquet and Arrow files",
                  words_of(arguments, *values, "RESULTS.sqlite"));
  }
  if (values->count("output") > 0) {
    throw UsageError(
        fmt::format("--output: expected --format parquet or arrow with it; {} is printed", format));
  }
  const ResultStore store(file, ResultStore::Access::read);
  Table table = store.table((*values)["table"].as<std::string>());
  if (values->count("without") > 0) {
    leave_out(table, parse_list((*values)["without"].as<std::string>(), "--without"));
  }
  format == "csv" ? print_csv(table) : write_json(std::cout, table);
  return 0;
}

}  // namespace kvsim::cli
