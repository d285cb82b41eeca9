#include "sim/sweep/shards/sweep_tasks.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace kvsim {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

/// Eight tasks for each of a thousand workers: the last ones leave an eighth of a share unbalanced
/// at most, and whoever hands them out is not kept busy by it.
constexpr std::int64_t kTasks = 8192;

}  // namespace

std::int64_t task_nanoseconds(std::int64_t total) {
  return std::clamp(total / kTasks, kSecond, 20 * kSecond);
}

std::vector<std::vector<std::size_t>> tasks_of(const std::vector<std::int64_t>& costs,
                                               std::optional<std::int64_t> each) {
  const std::int64_t total = std::accumulate(costs.begin(), costs.end(), std::int64_t{0});
  const std::int64_t wanted = std::max<std::int64_t>(1, each.value_or(task_nanoseconds(total)));
  // The work lies in a row and is cut into equal parts; an item is of the part that has its middle.
  const double parts =
      static_cast<double>(std::max<std::int64_t>(1, (total + wanted / 2) / wanted));
  std::map<std::int64_t, std::vector<std::size_t>> tasks;
  std::int64_t before = 0;
  for (std::size_t item = 0; item < costs.size(); ++item) {
    const double middle = static_cast<double>(before) + static_cast<double>(costs[item]) / 2;
    const double part = total > 0 ? parts * middle / static_cast<double>(total) : 0;
    tasks[static_cast<std::int64_t>(part)].push_back(item);
    before += costs[item];
  }
  std::vector<std::pair<std::int64_t, std::vector<std::size_t>>> sorted;
  for (auto& [part, items] : tasks) {
    std::int64_t cost = 0;
    for (const std::size_t item : items) cost += costs[item];
    sorted.emplace_back(cost, std::move(items));
  }
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::vector<std::size_t>> listed;
  for (auto& [cost, items] : sorted) listed.push_back(std::move(items));
  return listed;
}

}  // namespace kvsim
