#include "oracle/oracles.h"
#include "python/engine/bindings.h"

// The package next to it gives these functions their public form. Classes come before functions
// that take them, whose signatures name them.
NB_MODULE(_engine, module) {
  kvsim::add_oracles();
  kvsim::python::bind_errors();
  kvsim::python::bind_process(module);
  kvsim::python::bind_trace(module);
  kvsim::python::bind_new_traces(module);
  kvsim::python::bind_protocol(module);
  kvsim::python::bind_policies(module);
  kvsim::python::bind_python_policies(module);
  kvsim::python::bind_replay(module);
  kvsim::python::bind_sweep(module);
  kvsim::python::bind_parted_sweep(module);
  kvsim::python::bind_replay_part(module);
  kvsim::python::bind_schedules(module);
  kvsim::python::bind_curve(module);
  kvsim::python::bind_fetch(module);
  kvsim::python::bind_choices(module);
  kvsim::python::bind_python_selectors(module);
  kvsim::python::bind_analyze(module);
  kvsim::python::bind_labels(module);
  kvsim::python::bind_running_caches(module);
  kvsim::python::bind_closed_loop_file(module);
  kvsim::python::bind_shards(module);
  kvsim::python::bind_columns(module);
  kvsim::python::bind_check(module);
  kvsim::python::bind_partial_file(module);
  kvsim::python::bind_bootstrap(module);
  kvsim::python::bind_output_error(module);
}
