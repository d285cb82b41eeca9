#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "python/engine/bindings.h"
#include "python/engine/fields.h"
#include "python/engine/run_engine.h"
#include "sim/base/errors.h"
#include "sim/replay/replay.h"
#include "sim/sweep/in_parallel.h"
#include "sim/sweep/request/request_options.h"
#include "traces/integrity/convert_trace.h"
#include "traces/synth/synth_options.h"

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

SynthOptions options_of(const nb::dict& given) {
  SynthOptions options;
  options.threads = default_threads();
  std::int64_t seed = 0;
  std::string dtype = "float16";
  bool no_output = false;
  Fields fields;
  for (const SynthOption& option : synth_options()) {
    const std::string name(option.name);
    std::visit([&](auto field) { fields.add(name, options.*field); }, option.field);
  }
  fields.add("seed", seed);
  fields.add("dtype", dtype);
  fields.add("no_output", no_output);
  fields.add("sink_logit", options.sink_logit);
  fields.take(given);
  check_choice("dtype", dtype, {"float16", "float32"});
  options.elements = dtype == "float16" ? ElementType::float16 : ElementType::float32;
  options.seed = static_cast<std::uint64_t>(checked_seed(seed));
  options.output = !no_output;
  return options;
}

/// Without a path, in memory.
Trace synth(const std::optional<std::filesystem::path>& path, const nb::dict& given,
            const nb::object& progress) {
  constexpr double kWhole = 100;
  const SynthOptions options = options_of(given);
  std::optional<Trace> trace;
  run_engine(progress, [&](Work& state) {
    state.total = static_cast<std::size_t>(kWhole);
    const SynthProgress report = [&](double share) {
      check_interrupted(&state.interrupted);
      state.done = static_cast<std::size_t>(share * kWhole);
    };
    try {
      if (path) synthesize(*path, options, report);
      trace = path ? Trace(*path) : synthesize(options, report);
    } catch (const std::invalid_argument& error) {
      throw UsageError(error.what());  // names the option as Python does
    }
  });
  return *trace;
}

}  // namespace

void bind_new_traces(nb::module_& module) {
  module.def("convert", &convert, "trace"_a, "output"_a, "progress"_a.none());
  module.def("synth", &synth, "path"_a.none(), "options"_a, "progress"_a.none());
}

}  // namespace kvsim::python
