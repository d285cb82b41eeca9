#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "python/engine/bindings.h"
#include "python/engine/run_engine.h"
#include "sim/base/errors.h"
#include "sim/replay/replay.h"
#include "traces/integrity/convert_trace.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace kvsim::python {
namespace {

/// The new trace, and what was left out.
std::pair<Trace, LeftOut> convert(const Trace& trace, const std::filesystem::path& output,
                                  const nb::object& progress) {
  std::error_code not_there;
  if (std::filesystem::equivalent(trace.file(), output, not_there)) {
    throw UsageError("output: " + output.string() + " is the trace itself; name another file");
  }
  LeftOut left_out;
  run_engine(progress, [&](Work& state) {
    left_out = convert_trace(trace, output, [&](std::size_t done, std::size_t total) {
      check_interrupted(&state.interrupted);
      state.total = total;
      state.done = done;
    });
  });
  return {Trace(output), left_out};
}

}  // namespace

void bind_convert(nb::module_& module) {
  module.def("convert", &convert, "trace"_a, "output"_a, "progress"_a.none());
}

}  // namespace kvsim::python
