#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

namespace kvsim {

/// As in_parallel(), for work that begins with reading: runs `read(i)`, then `work(i)`. While all
/// threads work, a further one reads ahead what comes next, one i and no more, for files that lie
/// on a slow disk. `read` has to keep what it reads, may be called by several threads at once, and
/// its failure counts as one of work(i).
void in_parallel_reading_ahead(std::size_t count, int threads, const std::atomic<bool>& interrupted,
                               const std::function<void(std::size_t)>& read,
                               const std::function<void(std::size_t)>& work);

/// The same for `read` that returns what it reads, and `work(i, that)`.
template <class Read, class Work>
void in_parallel_with_read(std::size_t count, int threads, const std::atomic<bool>& interrupted,
                           const Read& read, const Work& work) {
  std::vector<std::optional<decltype(read(std::size_t{}))>> kept(count);
  in_parallel_reading_ahead(
      count, threads, interrupted, [&](std::size_t i) { kept[i].emplace(read(i)); },
      [&](std::size_t i) {
        auto own = std::move(*kept[i]);
        kept[i].reset();
        work(i, std::move(own));
      });
}

/// How many bytes reading ahead adds to the memory of so many pieces of work, of which reading the
/// largest takes `largest`.
inline std::size_t read_ahead_memory(std::size_t count, int threads, std::size_t largest) {
  return count > static_cast<std::size_t>(threads) ? largest : 0;
}

}  // namespace kvsim
