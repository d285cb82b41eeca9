#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace kvsim {

/// The work that a task is to have, of `total` in all, in nanoseconds: a second where that leaves
/// thousands of tasks to balance workers by, at most 20, which is what a worker that dies loses.
std::int64_t task_nanoseconds(std::int64_t total);

/// Groups items of these costs (work_items()) into tasks of about `each`, all in nanoseconds, at
/// first task_nanoseconds(): neighbours, which are of one sequence more often than not. A task
/// exceeds that by less than one item. The most expensive task first, so that none is left for the
/// end. Returns the indices of each task's items, ascending.
std::vector<std::vector<std::size_t>> tasks_of(const std::vector<std::int64_t>& costs,
                                               std::optional<std::int64_t> each = {});

}  // namespace kvsim
