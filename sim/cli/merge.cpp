#include "sim/results/merge/merge.h"

#include <fmt/format.h>

#include <iostream>

#include "sim/base/errors.h"
#include "sim/base/printable.h"
#include "sim/cli/interrupt.h"
#include "sim/cli/progress.h"
#include "sim/cli/session.h"
#include "sim/results/table.h"

namespace kvsim::cli {
namespace {

void write_summary(const Merged& merged, const std::string& file) {
  Table table{{"table", "rows", "new"}, {}};
  for (const MergedTable& each : merged.tables) {
    table.rows.push_back(
        {each.name, static_cast<std::int64_t>(each.rows), static_cast<std::int64_t>(each.added)});
  }
  write_aligned(std::cout, table);
  std::cout << fmt::format("{} in {}\n", counted(merged.parts, "part"), printable(file));
}

}  // namespace

int run_merge(const Verb& verb, const std::vector<std::string>& arguments) {
  po::options_description options(
      "Joins all tables. Rows with the same key must be equal, but for run_id and trace, and are\n"
      "kept once; files and tables that do not fit together are refused, and then nothing is\n"
      "written. Shards that are missing or were not finished are named.\n\n"
      "Options");
  options.add_options()("output,o", po::value<std::string>(),
                        "the result file (SQLite); what it holds already takes part")(
      "complete", "exit status 3 if shards are missing or unfinished; the rest is written")(
      "quiet,q", "no progress, no notes");
  options.add(scratch_options()).add(plugin_options());
  const auto values = parse(verb, arguments, options, {"PART"});
  if (!values) return 0;
  const std::vector<std::string> parts = positionals_from(verb, *values, "PART");
  const std::string file = required_from(verb, *values, "output");

  const std::atomic<bool>& is_interrupted = catch_interrupts();
  Progress progress(parts.size(), "parts", *values);
  const MergeProgress count_part = [&](std::size_t num_done) {
    if (is_interrupted) {
      throw Interrupted(
          fmt::format("interrupted after {}; {} is as it was", progress.state(), file));
    }
    progress.set(num_done);
  };
  const Merged merged =
      merge_results({parts.begin(), parts.end()}, file, count_part, scratch_from(*values));
  write_summary(merged, file);
  if (values->count("complete") == 0) {
    print_notes(merged.missing, *values);
  } else if (!merged.missing.empty()) {
    throw DataError(fmt::format("{} is not complete, as --complete demands: {}", file,
                                fmt::join(merged.missing, "; ")));
  }
  return 0;
}

}  // namespace kvsim::cli
