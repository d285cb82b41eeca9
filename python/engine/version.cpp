#include "sim/results/version.h"

#include <nanobind/stl/string.h>

#include "python/engine/bindings.h"

namespace kvsim::python {

void bind_version(nanobind::module_& module) { module.def("version", &version); }

}  // namespace kvsim::python
