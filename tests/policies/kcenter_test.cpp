#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <limits>

#include "policies/farthest_keys.h"
#include "sim/base/random_bits.h"
#include "tests/support/kept_tokens.h"

namespace kvsim::kcenter_test {

using namespace policies_test;
using Steps = std::vector<std::int32_t>;
using Keys = std::vector<std::vector<float>>;

Steps left_after(const std::string& spec, int budget, const Keys& keys, int prompt = 0,
                 int most_held = 0) {
  return evicted_after(Spec(spec), budget,
                       {.attention = any_attention(keys.size()),
                        .keys = keys,
                        .prompt = prompt,
                        .most_held = most_held});
}

/// What remains after a prompt as long as there are keys.
Steps compressed(const std::string& spec, int budget, const Keys& keys) {
  return left_after(spec, budget, keys, static_cast<int>(keys.size()));
}

TEST_CASE("kcenter keeps the first token and then, each time, the key farthest from those kept",
          "[policies]") {
  // Of the older keys 0, 10, 1, 9 and 5: first 0, then 10, then 5, which is 5 from either.
  CHECK(compressed("kcenter:recent=2", 5, {{0}, {10}, {1}, {9}, {5}, {100}, {101}}) ==
        Steps{7, 7, 6, 6, 7, 7, 7});
}

TEST_CASE("kcenter measures in all directions", "[policies]") {
  // From (0, 0): 5, 4 and 6; with (6, 0) too: (3, 4) has 5, (0, 4) 4.
  CHECK(compressed("kcenter:recent=0", 3, {{0, 0}, {3, 4}, {0, 4}, {6, 0}}) == Steps{4, 4, 3, 4});
}

TEST_CASE("kcenter drops from a stream what it would choose last", "[policies]") {
  // Step 3: 0, then 10, then 4. Step 4: 0, then 30, then 10, which had been kept in 4's place.
  CHECK(left_after("kcenter:recent=1", 3, {{0}, {4}, {10}, {30}, {1}}) == Steps{5, 3, 4, 5, 5});
}

TEST_CASE("kcenter chooses the earlier of two keys that are equally far", "[policies]") {
  CHECK(left_after("kcenter:recent=1", 3, {{0}, {5}, {-5}, {0}}) == Steps{4, 4, 3, 4});
  CHECK(compressed("kcenter:recent=0", 2, {{7}, {7}, {7}, {7}}) == Steps{4, 4, 3, 3});
}

TEST_CASE("kcenter shares its budget evenly with the recent tokens by default", "[policies]") {
  const Keys keys = {{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}};
  CHECK(compressed("kcenter", 4, keys) == compressed("kcenter:recent=2", 4, keys));
  CHECK(compressed("kcenter:recent=4", 4, keys) == Steps{7, 7, 7, 7, 8, 8, 8, 8});
  CHECK(compressed("kcenter:recent=100", 4, keys) == Steps{7, 7, 7, 7, 8, 8, 8, 8});
}

Keys random_keys(std::uint64_t seed, int count, int dim, std::uint64_t values) {
  Keys keys;
  for (int t = 0; t < count; ++t) {
    std::vector<float>& key = keys.emplace_back();
    for (int d = 0; d < dim; ++d) {
      const int draw = t * dim + d;
      key.push_back(
          static_cast<float>(random_bits(seed, static_cast<std::uint64_t>(draw)) % values));
    }
  }
  return keys;
}

double squared_distance(const Keys& keys, int a, int b) {
  double sum = 0;
  for (std::size_t d = 0; d < keys.front().size(); ++d) {
    const double difference =
        keys[static_cast<std::size_t>(a)][d] - keys[static_cast<std::size_t>(b)][d];
    sum += difference * difference;
  }
  return sum;
}

double to_nearest(const Keys& keys, int token, const std::vector<int>& centres) {
  double nearest = std::numeric_limits<double>::infinity();
  for (const int centre : centres) {
    nearest = std::min(nearest, squared_distance(keys, token, centre));
  }
  return nearest;
}

/// The greedy order of `tokens`, ascending, made anew.
std::vector<int> greedy_order(const Keys& keys, std::vector<int> tokens) {
  std::vector<int> order;
  while (!tokens.empty()) {
    int next = tokens.front();
    for (const int token : tokens) {
      if (to_nearest(keys, token, order) > to_nearest(keys, next, order)) next = token;
    }
    order.push_back(next);
    std::erase(tokens, next);
  }
  return order;
}

/// kcenter by its definition, the `first` tokens of the text never leaving, and none while at most
/// `most_held` are held.
Steps by_definition(const Keys& keys, int budget, int recent, int first, int prompt,
                    int most_held = 0) {
  const int n = static_cast<int>(keys.size());
  Steps left(keys.size(), n);
  std::vector<int> resident;
  for (int t = 0; t < n; ++t) {
    resident.push_back(t);
    if (t + 1 < prompt || std::ssize(resident) <= std::max(budget, most_held)) continue;
    std::vector<int> order = greedy_order(keys, {resident.begin(), resident.end() - recent});
    std::erase_if(order, [&](int token) { return token < first; });
    for (; std::ssize(resident) > budget; order.pop_back()) {
      left[static_cast<std::size_t>(order.back())] = t;
      std::erase(resident, order.back());
    }
  }
  return left;
}

TEST_CASE("to the last bit: kcenter drops what the order made anew at each step would drop",
          "[policies]") {
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    for (const int dim : {1, 2, 5}) {
      // Few values give many keys that are equal or equally far.
      for (const std::uint64_t values : {3U, 1000U}) {
        const Keys keys = random_keys(seed, 60, dim, values);
        for (const int prompt : {0, 45}) {
          CAPTURE(seed, dim, values, prompt);
          CHECK(left_after("kcenter:recent=0", 12, keys, prompt) ==
                by_definition(keys, 12, 0, 0, prompt));
          CHECK(left_after("kcenter:recent=3", 20, keys, prompt) ==
                by_definition(keys, 20, 3, 0, prompt));
          // The last of the order may be protected, and another one leave.
          CHECK(left_after("kcenter:recent=2+protect:first=5,last=0", 12, keys, prompt) ==
                by_definition(keys, 12, 2, 5, prompt));
          // Several tokens arrive, and then several leave.
          CHECK(left_after("kcenter:recent=3", 12, keys, prompt, 16) ==
                by_definition(keys, 12, 3, 0, prompt, 16));
        }
      }
    }
  }
}

/// The greedy order of the tokens of each step, which come and leave, with distances kept of at
/// most so many.
std::vector<std::vector<int>> orders_with(std::size_t most_kept, const Keys& keys,
                                          const std::vector<Steps>& held) {
  const std::size_t dim = keys.front().size();
  std::vector<float> numbers;
  for (const std::vector<float>& key : keys) numbers.insert(numbers.end(), key.begin(), key.end());
  PairDistances distances(most_kept);
  FarthestKeys farthest;
  std::vector<std::vector<int>> orders;
  for (const Steps& tokens : held) {
    distances.begin_step(tokens, {numbers.data(), dim, tokens}, tokens.size());
    std::vector<FarthestKeys::Choice> order;
    farthest.complete(distances, order);
    auto& found = orders.emplace_back();
    for (const FarthestKeys::Choice& choice : order) found.push_back(choice.token);
  }
  return orders;
}

TEST_CASE("to the last bit: kcenter orders keys alike with distances kept, moved and computed",
          "[policies]") {
  for (const int dim : {3, 8, 21}) {
    const Keys keys = random_keys(7, 90, dim, 40);
    std::vector<Steps> held;
    std::vector<std::vector<int>> expected;
    for (int step = 10; step < 90; ++step) {
      Steps& tokens = held.emplace_back();
      const int wanted = 10 + step % 13;  // more and fewer
      for (int token = 0; token <= step; ++token) {
        if ((token * 7 + step / 5) % (step / wanted + 1) == 0) tokens.push_back(token);
      }
      expected.push_back(greedy_order(keys, {tokens.begin(), tokens.end()}));
    }
    CAPTURE(dim);
    for (const std::size_t most_kept : {100U, 14U, 0U}) {
      CHECK(orders_with(most_kept, keys, held) == expected);
    }
  }
}

/// The largest squared distance of one of the first `count` keys to the nearest of `centres`.
double squared_radius(const Keys& keys, int count, const std::vector<int>& centres) {
  double radius = 0;
  for (int token = 0; token < count; ++token) {
    radius = std::max(radius, to_nearest(keys, token, centres));
  }
  return radius;
}

double best_squared_radius(const Keys& keys, int count, int num_centres) {
  double best = std::numeric_limits<double>::infinity();
  for (unsigned chosen = 0; chosen < 1U << count; ++chosen) {
    if (std::popcount(chosen) != num_centres) continue;
    std::vector<int> centres;
    for (int token = 0; token < count; ++token) {
      if ((chosen >> token & 1U) != 0) centres.push_back(token);
    }
    best = std::min(best, squared_radius(keys, count, centres));
  }
  return best;
}

std::vector<int> kept(const Steps& left) {
  std::vector<int> kept;
  for (int token = 0; token < std::ssize(left); ++token) {
    if (left[static_cast<std::size_t>(token)] == std::ssize(left)) kept.push_back(token);
  }
  return kept;
}

// Gonzalez 1985, Dyer and Frieze 1985.
TEST_CASE("kcenter leaves no older key of a prompt more than twice as far as need be",
          "[policies]") {
  constexpr int kOlder = 9;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    for (const int dim : {1, 2, 3}) {
      const Keys keys = random_keys(seed, kOlder + 1, dim, 20);
      for (const int num_centres : {1, 2, 3, 5, 8}) {
        CAPTURE(seed, dim, num_centres);
        std::vector<int> centres = kept(compressed("kcenter:recent=1", num_centres + 1, keys));
        REQUIRE(centres.back() == kOlder);
        centres.pop_back();
        CHECK(squared_radius(keys, kOlder, centres) <=
              4 * best_squared_radius(keys, kOlder, num_centres));
      }
    }
  }
}

TEST_CASE("kcenter may leave a key of a stream more than twice as far", "[policies]") {
  // Step 3 drops 1 and keeps 2; of 11 and 9 step 4 drops 9; of 11 and 12 step 5 drops 11. That
  // leaves 9 at a distance of 3, where 1, 11 and 9 have all others within 1.
  const Keys keys = {{0}, {2}, {1}, {11}, {9}, {12}};
  const Steps left = left_after("kcenter:recent=0", 3, keys);
  CHECK(left == Steps{6, 6, 3, 5, 4, 6});
  CHECK(squared_radius(keys, 6, kept(left)) == 9);
  CHECK(best_squared_radius(keys, 6, 3) == 1);
}

}  // namespace kvsim::kcenter_test
