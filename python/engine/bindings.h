#pragma once

#include <nanobind/nanobind.h>

namespace kvsim::python {

// Each adds what its file binds to the module.
void bind_errors();
void bind_process(nanobind::module_& module);
void bind_trace(nanobind::module_& module);
void bind_new_traces(nanobind::module_& module);
void bind_protocol(nanobind::module_& module);
void bind_policies(nanobind::module_& module);
void bind_python_policies(nanobind::module_& module);
void bind_replay(nanobind::module_& module);
void bind_sweep(nanobind::module_& module);
void bind_parted_sweep(nanobind::module_& module);
void bind_replay_part(nanobind::module_& module);
void bind_schedules(nanobind::module_& module);
void bind_curve(nanobind::module_& module);
void bind_fetch(nanobind::module_& module);
void bind_choices(nanobind::module_& module);
void bind_python_selectors(nanobind::module_& module);
void bind_analyze(nanobind::module_& module);
void bind_labels(nanobind::module_& module);
void bind_running_caches(nanobind::module_& module);
void bind_closed_loop_file(nanobind::module_& module);
void bind_shards(nanobind::module_& module);
void bind_columns(nanobind::module_& module);
void bind_check(nanobind::module_& module);
void bind_partial_file(nanobind::module_& module);
void bind_bootstrap(nanobind::module_& module);
void bind_output_error(nanobind::module_& module);

}  // namespace kvsim::python
