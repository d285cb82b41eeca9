#include "sim/sweep/in_parallel.h"

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <exception>
#include <optional>
#include <vector>

#include "sim/base/interrupt.h"
#include "sim/replay/replay.h"
#include "sim/sweep/cpu_quota.h"

namespace kvsim {

int default_threads() {
  if (std::getenv("OMP_NUM_THREADS") != nullptr) return omp_get_max_threads();
  static const std::optional<double> quota = cpu_quota();  // a running model asks at every step
  const int cores = omp_get_num_procs();
  if (!quota || *quota >= cores) return cores;
  return std::max(1, static_cast<int>(std::ceil(*quota)));
}

void in_parallel(std::size_t count, int threads, const std::atomic<bool>& interrupted,
                 const std::function<void(std::size_t)>& work) {
  std::atomic<bool> failed = false;
  std::vector<std::exception_ptr> failures(count);
#pragma omp parallel for schedule(dynamic) num_threads(threads)
  for (std::size_t i = 0; i < count; ++i) {
    if (failed || interrupted) continue;
    try {
      const InterruptScope scope(&interrupted);
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
