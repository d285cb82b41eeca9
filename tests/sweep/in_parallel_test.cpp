#include "sim/sweep/in_parallel.h"

#include <catch2/catch.hpp>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "sim/replay/replay.h"

namespace kvsim::in_parallel_test {

TEST_CASE("sweep: work in parallel is done once each, by any number of threads") {
  const std::atomic<bool> interrupted = false;
  for (const int threads : {1, 2, 7, 100}) {
    std::vector<std::atomic<int>> done(50);
    in_parallel(done.size(), threads, interrupted, [&](std::size_t i) { ++done[i]; });
    for (const std::atomic<int>& times : done) CHECK(times == 1);
  }
  in_parallel(0, 4, interrupted, [](std::size_t) { FAIL("there is no work"); });
}

TEST_CASE("sweep: work in parallel that does work in parallel takes no further threads") {
  const std::atomic<bool> interrupted = false;
  std::mutex mutex;
  std::set<std::thread::id> threads;
  in_parallel(2, 2, interrupted, [&](std::size_t) {
    in_parallel(8, 4, interrupted, [&](std::size_t) {
      const std::lock_guard lock(mutex);
      threads.insert(std::this_thread::get_id());
    });
  });
  CHECK(threads.size() <= 2);
}

TEST_CASE("sweep: of several failures in parallel the first is thrown, and nothing begins after") {
  const std::atomic<bool> interrupted = false;
  std::atomic<int> begun = 0;
  const auto fails = [&](std::size_t i) {
    ++begun;
    while (begun < 2) std::this_thread::yield();  // so that both fail
    throw std::runtime_error(std::to_string(i));
  };
  CHECK_THROWS_WITH(in_parallel(1000, 2, interrupted, fails), "0");
  CHECK(begun < 10);
}

TEST_CASE("sweep: an interruption ends work in parallel") {
  std::atomic<bool> interrupted = false;
  std::atomic<int> begun = 0;
  CHECK_THROWS_AS(in_parallel(1000, 1, interrupted,
                              [&](std::size_t i) {
                                ++begun;
                                interrupted = i == 3;
                              }),
                  Interrupted);
  CHECK(begun == 4);
}

}  // namespace kvsim::in_parallel_test
