#pragma once

#include <functional>

namespace kvsim::gpu_test {

/// What gpu::CudaThreads gives a thread, by threads of the host: they run at the same time, and
/// what is not kept apart by a meeting may happen in any order.
struct EmulatedThreads {
  static int index();
  static void meet();

  template <class T>
  static T& shared() {
    static T object;
    return object;
  }

  static unsigned from_lane_above(unsigned word, int distance);
  static unsigned ballot(bool yes);
  static void multiply_add(double (&sum)[2], double a, double b);
};

/// Runs `work` on all threads of one block; one block at a time.
void run_emulated(const std::function<void()>& work);

}  // namespace kvsim::gpu_test
