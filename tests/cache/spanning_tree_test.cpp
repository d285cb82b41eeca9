#include "sim/cache/spanning_tree.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <random>
#include <tuple>

namespace kvsim::spanning_tree_test {

constexpr int kTokens = 150;

int distance(const TokenSet& a, const TokenSet& b) {
  int count = 0;
  for (int token = 0; token < kTokens; ++token) count += a.contains(token) != b.contains(token);
  return count;
}

// Kruskal's algorithm over the sets, with cost 0 between the empty set and the roots.
int min_cost(std::vector<TokenSet> sets, const std::vector<int>& roots) {
  sets.emplace_back(kTokens);
  const int empty = static_cast<int>(sets.size()) - 1;
  std::vector<std::tuple<int, int, int>> edges;
  for (int i = 0; i <= empty; ++i) {
    for (int j = 0; j < i; ++j) edges.emplace_back(distance(sets[i], sets[j]), i, j);
  }
  for (const int root : roots) edges.emplace_back(0, empty, root);
  std::sort(edges.begin(), edges.end());
  std::vector<int> part(sets.size());
  std::iota(part.begin(), part.end(), 0);
  int cost = 0;
  for (const auto& [weight, i, j] : edges) {
    const int from = part[i];
    if (from == part[j]) continue;
    cost += weight;
    std::replace(part.begin(), part.end(), from, part[j]);
  }
  return cost;
}

TEST_CASE("every set is reached once, after its parent, at the minimum cost") {
  const int num_sets = GENERATE(1, 2, 9, 30);
  const std::vector<int> roots = GENERATE(std::vector<int>{}, std::vector<int>{0});
  std::mt19937 random(num_sets);
  std::vector<TokenSet> sets(num_sets, TokenSet(kTokens));
  for (int i = 0; i < num_sets; ++i) {
    for (int token = 0; token < kTokens; ++token) {
      if (static_cast<int>(random() % 31) < i) sets[i].insert(token);
    }
  }
  const auto edges = spanning_tree(sets, roots, kTokens);
  std::vector<char> is_reached(num_sets, 0);
  for (const int root : roots) is_reached[root] = 1;
  int cost = 0;
  for (const auto& [child, parent] : edges) {
    CHECK((parent < 0 || is_reached[parent]));
    CHECK(!is_reached[child]);
    is_reached[child] = 1;
    cost += distance(sets[child], parent < 0 ? TokenSet(kTokens) : sets[parent]);
  }
  CHECK(std::count(is_reached.begin(), is_reached.end(), 1) == num_sets);
  CHECK(cost == min_cost(sets, roots));
}

TEST_CASE("a light set is not reached through heavy ones") {
  const auto set_of = [](std::int32_t begin, std::int32_t end) {
    TokenSet set(kTokens);
    set.insert_range(begin, end);
    return set;
  };
  const std::vector<TokenSet> sets{set_of(0, 60), set_of(20, 70)};
  const auto parent_of_light = [&](std::vector<double> weights) {
    return spanning_tree(sets, std::vector{0}, kTokens, weights).front().parent;
  };
  CHECK(parent_of_light({}) == 0);  // 30 tokens against 50
  CHECK(parent_of_light({1, 0.1}) == 0);
  CHECK(parent_of_light({1, 0.01}) == -1);  // 30 and half of 50
}

TEST_CASE("tokens from num_tokens on do not count") {
  TokenSet near(kTokens);
  near.insert_range(0, 64);
  TokenSet far(kTokens);
  far.insert_range(64, 150);
  const auto edges = spanning_tree(std::vector{near, far}, {}, 64);
  REQUIRE(edges.size() == 2);
  CHECK(edges[0].child == 1);
  CHECK(edges[0].parent == -1);
}

}  // namespace kvsim::spanning_tree_test
