#pragma once

#include <atomic>
#include <cstddef>
#include <functional>

namespace kvsim {

/// Runs `work(i)` for i in 0 .. count - 1, on the calling thread and up to `threads` - 1 others.
/// poll_interrupt() looks at `interrupted` in each, if it is not null. After a failure no further i
/// begins; then throws the failure with the lowest i.
void side_by_side(std::size_t count, int threads, const std::atomic<bool>* interrupted,
                  const std::function<void(std::size_t)>& work);

}  // namespace kvsim
