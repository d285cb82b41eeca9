#include "sim/sweep/shards/shard.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <random>

#include "sim/base/errors.h"

namespace kvsim::shard_test {

using Costs = std::vector<std::int64_t>;

/// The cost that each of `count` shards gets.
Costs loads_of(const Costs& costs, int count) {
  Costs loads(count, 0);
  const std::vector<int> shards = partition(costs, count);
  REQUIRE(shards.size() == costs.size());
  for (std::size_t item = 0; item < costs.size(); ++item) {
    REQUIRE(shards[item] >= 1);
    REQUIRE(shards[item] <= count);
    loads[shards[item] - 1] += costs[item];
  }
  return loads;
}

TEST_CASE("shard: I/N is read and written alike") {
  CHECK(parse_shard("3/16") == Shard{3, 16});
  CHECK(parse_shard("1/1").is_all());
  CHECK_FALSE(parse_shard("1/2").is_all());
  CHECK(shard_name(parse_shard("16/16")) == "16/16");
}

TEST_CASE("shard: what is no I/N is refused by the name of its option") {
  const std::string text =
      GENERATE("", "3", "0/3", "4/3", "-1/3", "1/0", "1/-3", "a/b", "1/3x", "x1/3", "1/", "/3",
               " 1/3", "1/3/5", "1.0/3", "1/1000001", "1/99999999999");
  CAPTURE(text);
  CHECK_THROWS_AS(parse_shard(text), UsageError);
  CHECK_THROWS_WITH(parse_shard(text, "shard"), Catch::StartsWith("shard: expected I/N") &&
                                                    Catch::Contains("found '" + text + "'"));
}

TEST_CASE("deal: no two shards differ by more than the most expensive item") {
  std::mt19937 random(7);
  for (int count = 1; count <= 16; ++count) {
    for (const std::size_t items : {1, 5, 16, 100}) {
      Costs costs(items);
      for (std::int64_t& cost : costs) cost = 1 + static_cast<std::int64_t>(random() % 1000);
      const Costs loads = loads_of(costs, count);
      CHECK(std::accumulate(loads.begin(), loads.end(), std::int64_t{0}) ==
            std::accumulate(costs.begin(), costs.end(), std::int64_t{0}));
      const auto [least, most] = std::minmax_element(loads.begin(), loads.end());
      CHECK(*most - *least <= *std::max_element(costs.begin(), costs.end()));
    }
  }
}

TEST_CASE("deal: the most expensive item goes first, each to the shard that has the least") {
  CHECK(partition({1, 5, 3, 3, 2}, 2) == std::vector{2, 1, 2, 2, 1});
  CHECK(partition({4, 4, 4}, 3) == std::vector{1, 2, 3});
  CHECK(partition({4, 4}, 5) == std::vector{1, 2});
  CHECK(partition({}, 3).empty());
}

}  // namespace kvsim::shard_test
