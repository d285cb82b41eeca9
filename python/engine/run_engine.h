#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <cstddef>
#include <functional>

namespace kvsim::python {

/// The state that a thread of the engine shares with the one that waits for it.
struct Work {
  std::atomic<bool> interrupted = false;  ///< the engine is to end
  std::atomic<std::size_t> done = 0;
  std::atomic<std::size_t> total = 0;
};

/// Runs `work` in a thread of its own. The calling thread holds the GIL, lets go of it while it
/// waits, and wakes some ten times a second to see to Ctrl-C and, where `progress` is not None, to
/// call progress(done, total) once the total is known. What these raise, KeyboardInterrupt above
/// all, interrupts the work and is raised when it has ended; else what `work` throws.
void run_engine(const nanobind::object& progress, const std::function<void(Work&)>& work);

}  // namespace kvsim::python
