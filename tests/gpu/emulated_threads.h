#pragma once

#include <functional>

namespace kvsim::gpu_test {

/// The operations of gpu::CudaThreads, on threads of the host. They run at the same time: what no
/// barrier separates may happen in any order.
struct EmulatedThreads {
  static int index();
  static void synchronize();

  template <class T>
  static T& shared() {
    static T object;
    return object;
  }

  static void increment(int& number);
  static unsigned from_lane_above(unsigned word, int distance);
  static unsigned ballot(bool yes);
  static void multiply_add(double (&sum)[4], const double (&a)[8], const double (&b)[4]);
  static void multiply_add_part(double& sum0, double& sum1, double a, double b);
};

/// Runs `work` on all threads of one block, at most 256; one block at a time.
void run_emulated(const std::function<void()>& work, int num_threads = 256);

}  // namespace kvsim::gpu_test
