#include <iostream>

#include "sim/cli/options.h"
#include "sim/results/store.h"

namespace kvsim::cli {

int run_export(const Verb& verb, const std::vector<std::string>& arguments) {
  po::options_description options("Options");
  options.add_options()("table", po::value<std::string>()->default_value("replay"), "which table")(
      "format", po::value<std::string>()->default_value("csv"), "csv or json");
  const auto values = parse(verb, arguments, options, {"RESULTS.sqlite"});
  if (!values) return 0;
  const std::string format = choice_from(*values, "format", {"csv", "json"});
  const ResultStore store(positional_from(verb, *values, "RESULTS.sqlite"),
                          ResultStore::Access::read);
  const Table table = store.table((*values)["table"].as<std::string>());
  format == "csv" ? write_csv(std::cout, table) : write_json(std::cout, table);
  return 0;
}

}  // namespace kvsim::cli
