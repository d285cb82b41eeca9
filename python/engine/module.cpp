#include "oracle/oracles.h"
#include "python/engine/bindings.h"

// The package next to it gives these functions their public form.
NB_MODULE(_engine, module) {
  kvsim::add_oracles();
  kvsim::python::bind_errors();
  kvsim::python::bind_version(module);
  kvsim::python::bind_python_policies(module);
  kvsim::python::bind_trace(module);
  kvsim::python::bind_replay(module);
  kvsim::python::bind_curve(module);
  kvsim::python::bind_analyze(module);
  kvsim::python::bind_policies(module);
  kvsim::python::bind_convert(module);
  kvsim::python::bind_synth(module);
  kvsim::python::bind_sweep(module);
  kvsim::python::bind_plugin(module);
  kvsim::python::bind_parted_sweep(module);
  kvsim::python::bind_replay_part(module);
  kvsim::python::bind_schedules(module);
  kvsim::python::bind_running_caches(module);
  kvsim::python::bind_closed_loop_file(module);
  kvsim::python::bind_protocol(module);
  kvsim::python::bind_specs(module);
  kvsim::python::bind_labels(module);
  kvsim::python::bind_shards(module);
  kvsim::python::bind_bootstrap(module);
  kvsim::python::bind_threads(module);
  kvsim::python::bind_partial_file(module);
  kvsim::python::bind_merge(module);
  kvsim::python::bind_check(module);
  kvsim::python::bind_result_tables(module);
}
