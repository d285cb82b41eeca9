#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <vector>

#include "python/engine/arrays.h"
#include "python/engine/bindings.h"
#include "sim/sweep/verify.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace kvsim::python {
namespace {

double output_error_of(const Heads& query, const nb::handle& key, const nb::handle& value,
                       const Heads& output, float scale, std::optional<float> logit_softcap,
                       std::optional<int> sliding_window, std::optional<int> attention_chunk,
                       const std::vector<float>& sink_logit, const nb::handle& selected) {
  Unit unit;
  unit.scale = scale;
  unit.logit_softcap = logit_softcap;
  unit.sliding_window = sliding_window;
  unit.attention_chunk = attention_chunk;
  unit.sink_logit = sink_logit;
  unit.selected = selected_of(selected, "selected");
  unit.query = matrices_of(query);
  unit.key = matrix_of(key);
  unit.value = matrix_of(value);
  const std::vector<Matrix> recorded = matrices_of(output);
  const nb::gil_scoped_release release;
  return output_error(unit, recorded, *make_cpu_backend());
}

}  // namespace

void bind_output_error(nb::module_& module) {
  module.def("output_error", &output_error_of, "query"_a, "key"_a, "value"_a, "output"_a, "scale"_a,
             "logit_softcap"_a.none(), "sliding_window"_a.none(), "attention_chunk"_a.none(),
             "sink_logit"_a, "selected"_a.none());
}

}  // namespace kvsim::python
