#include "oracle/side_by_side.h"

#include <algorithm>
#include <exception>
#include <thread>
#include <vector>

#include "sim/base/interrupt.h"

namespace kvsim {

void side_by_side(std::size_t count, int threads, const std::atomic<bool>* interrupted,
                  const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next = 0;
  std::atomic<bool> failed = false;
  std::vector<std::exception_ptr> failures(count);
  const auto run = [&] {
    const InterruptScope scope(interrupted);
    for (std::size_t i = next++; i < count && !failed; i = next++) {
      try {
        work(i);
      } catch (...) {
        failures[i] = std::current_exception();
        failed = true;
      }
    }
  };
  {
    std::vector<std::jthread> others;
    const std::size_t most = std::min(count, static_cast<std::size_t>(std::max(1, threads)));
    while (others.size() + 1 < most) others.emplace_back(run);
    run();
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

}  // namespace kvsim
