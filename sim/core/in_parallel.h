#pragma once

#include <atomic>
#include <cstddef>
#include <functional>

namespace kvsim {

/// Runs `work(i)` for i in 0 .. count - 1 on that many threads, each i on one of them. After a
/// failure or an interruption nothing further is begun; then throws the first failure in the order
/// of i, or Interrupted.
void in_parallel(std::size_t count, int threads, const std::atomic<bool>& interrupted,
                 const std::function<void(std::size_t)>& work);

}  // namespace kvsim
