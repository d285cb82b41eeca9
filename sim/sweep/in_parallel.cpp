#include "sim/sweep/in_parallel.h"

#include <omp.h>

#include <exception>
#include <vector>

#include "sim/replay/replay.h"

namespace kvsim {

int default_threads() { return omp_get_max_threads(); }

void in_parallel(std::size_t count, int threads, const std::atomic<bool>& interrupted,
                 const std::function<void(std::size_t)>& work) {
  std::atomic<bool> failed = false;
  std::vector<std::exception_ptr> failures(count);
#pragma omp parallel for schedule(dynamic) num_threads(threads)
  for (std::size_t i = 0; i < count; ++i) {
    if (failed || interrupted) continue;
    try {
      work(i);
    } catch (...) {
      failures[i] = std::current_exception();
      failed = true;
    }
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
  check_interrupted(&interrupted);
}

}  // namespace kvsim
