#include "traces/synth/synth.h"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "python/engine/bindings.h"
#include "python/engine/fields.h"
#include "python/engine/run_engine.h"
#include "sim/replay/replay.h"
#include "sim/sweep/in_parallel.h"
#include "sim/sweep/request/request_options.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace kvsim::python {
namespace {

SynthOptions synth_options(const nb::dict& given) {
  SynthOptions options;
  options.threads = default_threads();
  std::int64_t seed = 0;
  std::string dtype = "float16";
  bool no_output = false;
  Fields fields;
  fields.add("tokens", options.tokens);
  fields.add("prompt_length", options.prompt_length);
  fields.add("layers", options.layers);
  fields.add("query_heads", options.query_heads);
  fields.add("kv_heads", options.kv_heads);
  fields.add("head_dim", options.head_dim);
  fields.add("value_dim", options.value_dim);
  fields.add("hidden", options.hidden);
  fields.add("gradient_samples", options.gradient_samples);
  fields.add("mlp_width", options.mlp_width);
  fields.add("rope_base", options.rope_base);
  fields.add("seed", seed);
  fields.add("dtype", dtype);
  fields.add("no_output", no_output);
  fields.add("sinks", options.sinks);
  fields.add("sink_strength", options.sink_strength);
  fields.add("local_strength", options.local_strength);
  fields.add("local_decay", options.local_decay);
  fields.add("heavy_strength", options.heavy_strength);
  fields.add("heavy_exponent", options.heavy_exponent);
  fields.add("retrieval_share", options.retrieval_share);
  fields.add("retrieval_strength", options.retrieval_strength);
  fields.add("retrieval_period", options.retrieval_period);
  fields.add("drift", options.drift);
  fields.add("noise", options.noise);
  fields.add("sink_logit", options.sink_logit);
  fields.add("attention_chunk", options.attention_chunk);
  fields.add("threads", options.threads);
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
  const SynthOptions options = synth_options(given);
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

void bind_synth(nb::module_& module) {
  module.def("synth", &synth, "path"_a.none(), "options"_a, "progress"_a.none());
}

}  // namespace kvsim::python
