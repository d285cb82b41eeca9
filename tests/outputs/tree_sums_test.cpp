#include "sim/outputs/tree_sums.h"

#include <catch2/catch.hpp>
#include <random>

#include "tests/support/normal_numbers.h"

namespace kvsim::tree_sums_test {

using namespace test_support;

constexpr int kTokens = 400;
constexpr int kDims = 30;

AlignedRows some_weights(int seed = 1) {
  const std::vector<float> numbers = normal_numbers(kTokens * kBlockSteps, 1, seed);
  AlignedRows rows(kTokens, kBlockSteps);
  std::copy(numbers.begin(), numbers.end(), rows.row(0));
  return rows;
}

Matrix some_values() {
  const std::vector<float> numbers = normal_numbers(kTokens * kDims, 1, 2);
  return Eigen::Map<const Matrix>(numbers.data(), kTokens, kDims);
}

// Budgets of two policies, one of them a window.
std::vector<TokenSet> nested_sets() {
  std::mt19937 random(7);
  std::vector<TokenSet> sets;
  for (const int share : {80, 50, 20, 5}) {
    TokenSet& window = sets.emplace_back(kTokens);
    window.insert_range(0, kTokens * share / 100);
    TokenSet& scattered = sets.emplace_back(kTokens);
    for (int token = 0; token < kTokens; ++token) {
      if (static_cast<int>(random() % 100) < share) scattered.insert(token);
    }
  }
  return sets;
}

double sum_over(const TokenSet& set, const AlignedRows& weight, const Matrix& value, int row,
                int dim) {
  double sum = 0;
  for_each_token_of(set, kTokens, true, [&](std::int32_t token) {
    sum += double{weight.row(token)[row]} * value(token, dim);
  });
  return sum;
}

TEST_CASE("sums along a tree are those over each set", "[outputs]") {
  const AlignedRows weight = some_weights();
  const Matrix value = some_values();
  const ValuePanels panels(value);
  const std::vector<TokenSet> sets = nested_sets();
  TreeSums sums;
  for (int round = 0; round < 2; ++round) {  // the second finds the memory of the first
    const int first = round * TreeSums::kMostDims;
    const int dims = std::min(TreeSums::kMostDims, kDims - first);
    sums.link(sets, {}, kTokens, {});
    sums.sum({weight, panels}, first, dims);
    CHECK(sums.edges().size() == sets.size());
    for (std::size_t i = 0; i < sets.size(); ++i) {
      CAPTURE(i, round);
      for (int d = 0; d < dims; ++d) {
        const double expected = sum_over(sets[i], weight, value, 5, first + d);
        REQUIRE(sums.rows(static_cast<int>(i))[d * kBlockSteps + 5] ==
                Approx(expected).margin(1e-4));
      }
    }
  }
}

TEST_CASE("sets that are linked once are summed over any weights, and fewer sets after them",
          "[outputs]") {
  const AlignedRows weights[] = {some_weights(1), some_weights(3)};
  const Matrix value = some_values();
  const ValuePanels panels(value);
  std::vector<TokenSet> sets = nested_sets();
  TreeSums sums;
  const auto check = [&] {
    for (const AlignedRows& weight : weights) {
      for (const int first : {0, TreeSums::kMostDims}) {
        const int dims = std::min(TreeSums::kMostDims, kDims - first);
        sums.sum({weight, panels}, first, dims);
        for (std::size_t i = 0; i < sets.size(); ++i) {
          CAPTURE(sets.size(), first, i);
          const double expected = sum_over(sets[i], weight, value, 30, first + dims - 1);
          CHECK(sums.rows(static_cast<int>(i))[(dims - 1) * kBlockSteps + 30] ==
                Approx(expected).margin(1e-4));
        }
      }
    }
  };
  sums.link(sets, {}, kTokens, {});
  check();
  sets.resize(3);
  for (TokenSet& set : sets) {
    for (int token = 0; token < kTokens; token += 2) set.erase(token);
  }
  sums.link(sets, {}, kTokens, {});
  check();
}

TEST_CASE("the sums of a root are taken as given", "[outputs]") {
  const AlignedRows weight = some_weights();
  const Matrix value = some_values();
  const ValuePanels panels(value);
  std::vector<TokenSet> sets = nested_sets();
  sets.resize(2);
  sets[1] = sets[0];
  sets[1].insert_range(kTokens - 1, kTokens);
  TreeSums sums;
  const int root = 0;
  sums.link(sets, {&root, 1}, kTokens, {});
  std::fill_n(sums.rows(root), TreeSums::kMostDims * kBlockSteps, 100.0);
  sums.sum({weight, panels}, 0, 4);
  const double last = double{weight.row(kTokens - 1)[9]} * value(kTokens - 1, 3);
  CHECK(sums.rows(1)[3 * kBlockSteps + 9] == Approx(100 + last));
}

}  // namespace kvsim::tree_sums_test
