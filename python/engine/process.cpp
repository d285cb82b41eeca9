#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "python/engine/bindings.h"
#include "sim/plugin/load_plugin.h"
#include "sim/results/version.h"
#include "sim/sweep/in_parallel.h"

namespace kvsim::python {

void bind_process(nanobind::module_& module) {
  module.def("version", &version);
  module.def("default_threads", &default_threads);
  module.def(
      "load_plugin",
      [](const std::string& file) {
        const PluginNames& names = load_plugin(file);
        return std::pair(names.policies, names.analyses);
      },
      nanobind::arg("file"));
}

}  // namespace kvsim::python
