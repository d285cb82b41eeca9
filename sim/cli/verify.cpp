#include "sim/sweep/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>

#include "sim/base/errors.h"
#include "sim/cli/options.h"
#include "sim/cli/session.h"
#include "sim/results/table.h"
#include "traces/integrity/check_trace.h"

namespace kvsim::cli {
namespace {

void print(const TraceCheck& check) {
  if (check.version < 2) {
    std::cout << "version 1 has no digests to check; kvsim convert makes it version 2\n\n";
    return;
  }
  std::cout << fmt::format("the digests of all {} heads and lists in {} datasets agree\n\n",
                           check.heads, check.datasets);
}

}  // namespace

int run_verify(const Verb& verb, const std::vector<std::string>& arguments) {
  po::options_description options("Options");
  options.add(selection_options()).add(run_options());
  options.add_options()("quiet,q", "no notes");
  const auto values = parse(verb, arguments, options, {"TRACE"});
  if (!values) return 0;
  const Trace trace(positional_from(verb, *values, "TRACE"));
  const RequestOptions given = options_from(*values);
  const std::vector<SelectedUnit> units = select_units(trace, selection_of(given));
  const int threads = threads_of(given);
  print_notes({fmt::format("{}; {}", counted(units.size(), "unit"),
                           memory_note(verify_memory(units, threads), threads))},
              *values);
  print(check_trace(trace));
  const auto checks = verify(trace, selection_of(given), *backend_from(*values), threads_of(given));

  Table table{{"sequence", "layer", "worst error", "limit", "verdict"}, {}};
  for (const LayerCheck& check : checks) {
    const std::string verdict =
        !check.has_output ? "no recorded output" : (check.agrees() ? "agrees" : "DIFFERS");
    const std::string worst = check.has_output ? fmt::format("{:.1e}", check.worst_error) : "-";
    table.rows.push_back({check.sequence, std::int64_t{check.layer}, worst,
                          fmt::format("{:.0e}", check.limit), verdict});
  }
  write_aligned(std::cout, table);
  std::cout << "\nerrors: |recomputed - recorded| of a head's output, over the mean length of the "
               "values that its attention sums\n";

  const auto count = [&](auto predicate) {
    return std::count_if(checks.begin(), checks.end(), predicate);
  };
  const auto repeating = count([](const LayerCheck& check) { return check.repeats_heads; });
  if (repeating > 0) {
    std::cout << fmt::format(
        "\nKV heads of {} of {} layers have the keys and values of the head before them, as if "
        "they were repeated over query heads: each then counts as a unit. Store every KV head "
        "once\n",
        repeating, checks.size());
  }
  if (count([](const LayerCheck& check) { return check.has_output; }) == 0) {
    throw DataError(
        fmt::format("{}: no layer has a recorded output to compare with; record the "
                    "trace with its head outputs",
                    trace.file().string()));
  }
  const auto differing = count([](const LayerCheck& check) { return !check.agrees(); });
  if (differing > 0) {
    throw DataError(
        fmt::format("{}: {} of {} layers differ from the recorded output by more than "
                    "the limit; check scale, rotation and masks of the recorder",
                    trace.file().string(), differing, checks.size()));
  }
  return 0;
}

}  // namespace kvsim::cli
