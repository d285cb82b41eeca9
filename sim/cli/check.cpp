#include <fmt/format.h>

#include <iostream>

#include "sim/base/errors.h"
#include "sim/base/printable.h"
#include "sim/cli/check_trace.h"
#include "sim/cli/interrupt.h"
#include "sim/cli/options.h"
#include "sim/cli/session.h"
#include "sim/replay/replay.h"
#include "sim/results/integrity/check_results.h"
#include "sim/results/table.h"
#include "traces/hdf5/input_file.h"

namespace kvsim::cli {
namespace {

void write_checked(const CheckedResults& checked, const std::string& file) {
  Table table{{"table", "rows", "units", "verdict"}, {}};
  for (const CheckedTable& each : checked.tables) {
    std::vector<Value> row{each.name, each.rows, std::monostate(), std::string("no digests")};
    if (each.has_digests) {
      row[2] = each.units;
      row[3] = std::string("agrees");
    }
    table.rows.push_back(std::move(row));
  }
  write_aligned(std::cout, table);
  std::cout << (checked.format == 0
                    ? fmt::format("{}: written before result files had digests; the next verb that "
                                  "writes to it adds them\n",
                                  printable(file))
                    : fmt::format("{}: result file of format {}\n", printable(file),
                                  checked.format));
}

}  // namespace

int run_check(const Verb& verb, const std::vector<std::string>& arguments) {
  po::options_description options(
      "Reads all of a result file or trace and compares it with the digests that were written "
      "with\n"
      "it. The first difference, and any value that cannot be, is an error with status 3.\n\n"
      "Options");
  const auto values = parse(verb, arguments, options, {"FILE"});
  if (!values) return 0;
  const std::string file = positional_from(verb, *values, "FILE");
  if (const std::string found = found_instead_of_file(file); !found.empty()) {
    throw DataError(fmt::format("{}: expected a result file or a trace, found {}", file, found));
  }
  if (!is_result_file(file)) return check_trace_file(file);
  const std::atomic<bool>& is_interrupted = catch_interrupts();
  const auto poll = [&] {
    if (is_interrupted) throw Interrupted(fmt::format("interrupted; {} is as it was", file));
  };
  write_checked(check_results(file, poll), file);
  return 0;
}

}  // namespace kvsim::cli
