#include "sim/sweep/read_ahead.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "sim/replay/replay.h"
#include "sim/sweep/memory.h"

namespace kvsim::read_ahead_test {

const std::atomic<bool> kNotInterrupted = false;

/// Whether `condition` comes true within some seconds.
template <class Condition>
bool comes_true(const Condition& condition) {
  using namespace std::chrono_literals;
  for (int tries = 0; tries < 10000; ++tries) {
    if (condition()) return true;
    std::this_thread::sleep_for(1ms);
  }
  return false;
}

TEST_CASE("sweep: all is read once, before the work on it, by any number of threads") {
  for (const int threads : {1, 2, 7, 100}) {
    std::vector<std::atomic<int>> reads(50);
    std::vector<std::atomic<int>> works(50);
    in_parallel_with_read(
        50, threads, kNotInterrupted,
        [&](std::size_t i) {
          ++reads[i];
          return std::to_string(i);
        },
        [&](std::size_t i, const std::string& text) { works[i] += text == std::to_string(i); });
    for (std::size_t i = 0; i < 50; ++i) CHECK((reads[i] == 1 && works[i] == 1));
  }
  const auto none = [](std::size_t) { FAIL("there is no work"); };
  in_parallel_reading_ahead(0, 2, kNotInterrupted, none, none);
}

TEST_CASE("sweep: what comes next is read while a thread works, and no more than that") {
  constexpr std::size_t kCount = 20;
  std::atomic<std::size_t> read = 0;
  std::atomic<std::size_t> worked = 0;
  std::atomic<bool> is_too_far = false;
  std::atomic<bool> is_late = false;
  std::vector<std::size_t> order;
  in_parallel_reading_ahead(
      kCount, 1, kNotInterrupted,
      [&](std::size_t i) {
        if (worked + 1 < i) is_too_far = true;
        ++read;
      },
      [&](std::size_t i) {
        const std::size_t wanted = std::min(i + 2, kCount);
        if (!comes_true([&] { return read >= wanted; })) is_late = true;
        order.push_back(i);
        ++worked;
      });
  CHECK_FALSE(is_too_far);
  CHECK_FALSE(is_late);
  CHECK(std::is_sorted(order.begin(), order.end()));
  CHECK(order.size() == kCount);
}

TEST_CASE("sweep: what cannot be read fails as its own work would") {
  const auto read = [](std::size_t i) {
    if (i == 5) throw std::runtime_error("cannot read 5");
  };
  std::atomic<int> works = 0;
  const auto work = [&](std::size_t) { ++works; };
  for (const int threads : {1, 3}) {
    works = 0;
    CHECK_THROWS_WITH(in_parallel_reading_ahead(1000, threads, kNotInterrupted, read, work),
                      "cannot read 5");
    CHECK(works >= (threads == 1 ? 5 : 0));
    CHECK(works < 1000);
  }
}

TEST_CASE("sweep: of several failures the first is thrown, whoever read for it") {
  std::atomic<int> begun = 0;
  const auto fails = [&](std::size_t i) {
    ++begun;
    comes_true([&] { return begun >= 2; });  // so that both fail
    throw std::runtime_error(std::to_string(i));
  };
  CHECK_THROWS_WITH(in_parallel_reading_ahead(
                        1000, 2, kNotInterrupted, [](std::size_t) {}, fails),
                    "0");
  CHECK(begun < 10);
}

TEST_CASE("sweep: an interruption ends reading ahead") {
  std::atomic<bool> interrupted = false;
  std::atomic<std::size_t> read = 0;
  const auto work = [&](std::size_t i) { interrupted = i == 3; };
  CHECK_THROWS_AS(in_parallel_reading_ahead(
                      1000, 1, interrupted, [&](std::size_t) { ++read; }, work),
                  Interrupted);
  CHECK(read <= 5);
}

TEST_CASE("sweep: memory counts the vectors of one unit read ahead, where there are more units") {
  const ReplayShape shape{
      .num_tokens = 100, .group_size = 4, .head_dim = 8, .value_dim = 6, .hidden = 10};
  constexpr std::size_t kNumbers = 100 * (5 * 8 + 6) + 4 * 6 * 10;
  CHECK(read_memory(shape) == 4 * (kNumbers + 100));
  CHECK(read_ahead_memory(3, 2, 1000) == 1000);
  CHECK(read_ahead_memory(2, 2, 1000) == 0);
}

TEST_CASE("sweep: vectors that are read part by part are not read ahead") {
  CHECK(read_memory({.num_tokens = 100, .head_dim = 8, .has_reference = false}) == 4 * 100);
}

}  // namespace kvsim::read_ahead_test
