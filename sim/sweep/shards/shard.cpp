#include "sim/sweep/shards/shard.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <numeric>
#include <queue>
#include <utility>

#include "sim/base/errors.h"
#include "sim/results/run.h"

namespace kvsim {
namespace {}  // namespace

Shard parse_shard(const std::string& text, const std::string& option) {
  Shard shard;
  const char* end = text.data() + text.size();
  const auto index = std::from_chars(text.data(), end, shard.index);
  const bool has_index = index.ec == std::errc() && index.ptr != end && *index.ptr == '/';
  if (has_index) {
    const auto count = std::from_chars(index.ptr + 1, end, shard.count);
    if (count.ec == std::errc() && count.ptr == end && shard.count <= kMostShards &&
        1 <= shard.index && shard.index <= shard.count) {
      return shard;
    }
  }
  throw UsageError(fmt::format("{}: expected I/N, as in 3/16, with 1 <= I <= N <= {}, found '{}'",
                               option, kMostShards, text));
}

std::string shard_name(const Shard& shard) {
  return fmt::format("{}/{}", shard.index, shard.count);
}

std::vector<int> partition(const std::vector<std::int64_t>& costs, int count) {
  if (count < 1) throw UsageError(fmt::format("shards: expected 1 or more, found {}", count));
  std::vector<std::size_t> order(costs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return costs[a] > costs[b]; });
  using Load = std::pair<std::int64_t, int>;  // what a shard has so far, and its index
  std::priority_queue<Load, std::vector<Load>, std::greater<>> loads;
  for (int index = 1; index <= count; ++index) loads.emplace(0, index);
  std::vector<int> shards(costs.size());
  for (const std::size_t item : order) {
    auto [load, index] = loads.top();
    loads.pop();
    shards[item] = index;
    loads.emplace(load + costs[item], index);
  }
  return shards;
}

}  // namespace kvsim
