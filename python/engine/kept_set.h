#pragma once

#include <nanobind/nanobind.h>

#include <utility>

#include "python/engine/arrays.h"
#include "sim/replay/replay.h"

namespace kvsim::python {

/// What a policy that selects attends to at each step, (offsets [n + 1], tokens); else None.
inline nanobind::object selected_of(Trajectory& trajectory) {
  if (trajectory.selected_begin.empty()) return nanobind::none();
  return nanobind::make_tuple(array_of(std::move(trajectory.selected_begin)),
                              array_of(std::move(trajectory.selected)));
}

/// What a replay keeps: (policy, budget, layer, KV head, evicted_after [n], selected_of()).
inline nanobind::tuple kept_set_of(Outcome& outcome) {
  const Result& row = outcome.result;
  return nanobind::make_tuple(row.policy, row.budget, row.layer, row.kv_head,
                              array_of(std::move(outcome.trajectory.evicted_after)),
                              selected_of(outcome.trajectory));
}

/// Frees what is measured at each step, which a kept set does not have.
inline void drop_measurements(Trajectory& trajectory) {
  trajectory.attention_recall.resize(0, 0);
  trajectory.output_error.resize(0, 0);
  trajectory.predicted_kl.resize(0, 0);
}

}  // namespace kvsim::python
