#pragma once

#include <atomic>
#include <cstddef>
#include <functional>

namespace kvsim {

/// OMP_NUM_THREADS where it is set; else the cores that the process may use: those of its affinity,
/// or fewer if control groups allow it less time (cpu_quota(), rounded up).
int default_threads();

/// Runs `work(i)` for i in 0 .. count - 1 on `threads` threads. After a failure or an interruption
/// no further i begins; then throws the failure with the lowest i, or Interrupted.
void in_parallel(std::size_t count, int threads, const std::atomic<bool>& interrupted,
                 const std::function<void(std::size_t)>& work);

}  // namespace kvsim
