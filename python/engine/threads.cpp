#include "python/engine/bindings.h"
#include "sim/sweep/in_parallel.h"

namespace kvsim::python {

void bind_threads(nanobind::module_& module) { module.def("default_threads", &default_threads); }

}  // namespace kvsim::python
