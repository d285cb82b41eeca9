#include "sim/sweep/shards/sweep_tasks.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>

namespace kvsim::sweep_tasks_test {

using Costs = std::vector<std::int64_t>;
using Tasks = std::vector<std::vector<std::size_t>>;

constexpr std::int64_t kMillisecond = 1'000'000;
constexpr std::int64_t kSecond = 1000 * kMillisecond;

std::int64_t cost_of(const std::vector<std::size_t>& task, const Costs& costs) {
  std::int64_t sum = 0;
  for (const std::size_t item : task) sum += costs[item];
  return sum;
}

/// From a tenth of a second to four, in no order.
Costs uneven(std::size_t count) {
  Costs costs;
  for (std::size_t i = 0; i < count; ++i) {
    costs.push_back(static_cast<std::int64_t>(1 + i * 7919 % 40) * 100 * kMillisecond);
  }
  return costs;
}

TEST_CASE("every item is in one task, next to its neighbours", "[sweep]") {
  const Costs costs = uneven(GENERATE(1, 2, 17, 5000));
  std::vector<std::size_t> partitioned;
  for (const auto& task : tasks_of(costs)) {
    REQUIRE_FALSE(task.empty());
    CHECK(task.back() - task.front() + 1 == task.size());
    partitioned.insert(partitioned.end(), task.begin(), task.end());
  }
  std::sort(partitioned.begin(), partitioned.end());
  std::vector<std::size_t> all(costs.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  CHECK(partitioned == all);
}

TEST_CASE("a task has a second of work, of much work more, but no more than 20", "[sweep]") {
  CHECK(task_nanoseconds(kSecond / 2) == kSecond);
  CHECK(task_nanoseconds(3600 * kSecond) == kSecond);
  CHECK(task_nanoseconds(10 * 3600 * kSecond) > 4 * kSecond);
  CHECK(task_nanoseconds(1000 * 3600 * kSecond) == 20 * kSecond);
}

TEST_CASE("tasks are about as large as they are to be", "[sweep]") {
  const Costs small(1000, 10 * kMillisecond);
  for (const auto& task : tasks_of(small)) CHECK(cost_of(task, small) == kSecond);
  const Costs costs = uneven(5000);
  for (const auto& task : tasks_of(costs, 20 * kSecond)) {
    CHECK(cost_of(task, costs) >= 16 * kSecond);
    CHECK(cost_of(task, costs) <= 24 * kSecond);
  }
}

TEST_CASE("some seconds of work are split, less is one task", "[sweep]") {
  CHECK(tasks_of(Costs(100, 40 * kMillisecond)).size() == 4);
  CHECK(tasks_of(Costs(100, 4 * kMillisecond)).size() == 1);
  CHECK(tasks_of({}).empty());
}

TEST_CASE("an item that is larger than a task has one, and the largest go first", "[sweep]") {
  CHECK(tasks_of({kSecond, kSecond, 30 * kSecond, kSecond}) == Tasks{{2}, {0}, {1}, {3}});
}

}  // namespace kvsim::sweep_tasks_test
