#include <fmt/format.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/string.h>

#include "python/engine/bindings.h"
#include "python/engine/run_engine.h"
#include "sim/base/errors.h"
#include "sim/replay/replay.h"
#include "sim/results/integrity/check_results.h"
#include "traces/hdf5/input_file.h"
#include "traces/integrity/check_trace.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace kvsim::python {
namespace {

/// Does `work` with a function that throws at Ctrl-C.
template <typename Check>
void run_check(Check work) {
  run_engine(nb::none(), [&](Work& state) {
    work([&] {
      if (state.interrupted) throw Interrupted("interrupted");
    });
  });
}

void check_is_file(const std::filesystem::path& file) {
  const std::string found = found_instead_of_file(file);
  if (found.empty()) return;
  throw DataError(
      fmt::format("{}: expected a result file or a trace, found {}", file.string(), found));
}

/// [(table, rows, units or None)].
nb::list check_result_file(const std::filesystem::path& file) {
  CheckedResults checked;
  run_check([&](const auto& poll) { checked = check_results(file, poll); });
  nb::list tables;
  for (const CheckedTable& each : checked.tables) {
    const nb::object units = each.has_digests ? nb::object(nb::int_(each.units)) : nb::none();
    tables.append(nb::make_tuple(each.name, each.rows, units));
  }
  return tables;
}

/// [(sequence, tokens, layers, KV heads of all layers, whether there are digests)].
nb::list check_trace_file(const std::filesystem::path& file) {
  std::vector<SequenceInfo> sequences;
  bool has_digests = false;
  run_check([&](const auto& poll) {
    const Trace trace(file);
    has_digests = check_trace(trace, poll).version >= 2;
    if (!has_digests) read_every_unit(trace, poll);
    sequences.assign(trace.sequences().begin(), trace.sequences().end());
  });
  nb::list found;
  for (const SequenceInfo& sequence : sequences) {
    std::size_t heads = 0;
    for (const LayerInfo& layer : sequence.layers) heads += layer.kv_heads.size();
    found.append(nb::make_tuple(sequence.name, sequence.num_tokens, sequence.layers.size(), heads,
                                has_digests));
  }
  return found;
}

/// Throws if this version cannot read the file.
void check_format(const std::filesystem::path& file) { const Database database(file, false); }

}  // namespace

void bind_check(nb::module_& module) {
  const nb::call_guard<nb::gil_scoped_release> without_gil;
  module.def("check_is_file", &check_is_file, "file"_a, without_gil);
  module.def("is_result_file", &is_result_file, "file"_a, without_gil);
  module.def("check_result_file", &check_result_file, "file"_a);
  module.def("check_trace_file", &check_trace_file, "file"_a);
  module.def("check_format", &check_format, "file"_a, without_gil);
  module.def("check_table", &check_table, "file"_a, "table"_a, without_gil);
}

}  // namespace kvsim::python
