#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/string.h>

#include "python/engine/bindings.h"
#include "python/engine/run_engine.h"
#include "sim/replay/replay.h"
#include "sim/results/integrity/check_results.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace kvsim::python {
namespace {

/// [(table, rows, units or None)].
nb::list check(const std::filesystem::path& file, bool renew) {
  CheckedResults checked;
  run_engine(nb::none(), [&](Work& state) {
    const auto poll = [&] {
      if (state.interrupted) throw Interrupted("interrupted");
    };
    if (renew) renew_digests(file, poll);
    checked = check_results(file, poll);
  });
  nb::list tables;
  for (const CheckedTable& each : checked.tables) {
    const nb::object units = each.has_digests ? nb::object(nb::int_(each.units)) : nb::none();
    tables.append(nb::make_tuple(each.name, each.rows, units));
  }
  return tables;
}

/// Throws if this version cannot read the file.
void check_format(const std::filesystem::path& file) { const Database database(file, false); }

}  // namespace

void bind_check(nb::module_& module) {
  const nb::call_guard<nb::gil_scoped_release> without_gil;
  module.def("check_results", &check, "file"_a, "renew_digests"_a);
  module.def("is_result_file", &is_result_file, "file"_a);
  module.def("check_format", &check_format, "file"_a, without_gil);
  module.def("check_table", &check_table, "file"_a, "table"_a, without_gil);
}

}  // namespace kvsim::python
