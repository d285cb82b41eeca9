#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "policies/parts/key_redundancy.h"
#include "sim/base/random_bits.h"
#include "tests/support/kept_tokens.h"

namespace kvsim::r_kv_test {

using namespace policies_test;
using Steps = std::vector<std::int32_t>;
using Vectors = std::vector<std::vector<float>>;

Vectors vectors(std::size_t count, std::size_t dim, std::uint64_t seed) {
  Vectors all(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    for (std::uint64_t d = 0; d < dim; ++d) {
      all[i].push_back(static_cast<float>(random_bits(seed, i * dim + d) % 201) / 100 - 1);
    }
  }
  return all;
}

double product(const std::vector<float>& x, const std::vector<float>& y) {
  double sum = 0;
  for (std::size_t d = 0; d < x.size(); ++d) sum += double{x[d]} * double{y[d]};
  return sum;
}

double cosine(const std::vector<float>& x, const std::vector<float>& y) {
  return product(x, y) / (std::sqrt(product(x, x)) + 1e-8) / (std::sqrt(product(y, y)) + 1e-8);
}

/// Section 3.3, with the whole matrix of cosines.
std::vector<double> redundancy(const Vectors& keys, const Steps& tokens, double threshold,
                               bool falls_back) {
  std::vector<double> means(tokens.size(), 0);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    std::vector<double> row(tokens.size(), 0);
    int latest = falls_back ? 0 : -1;
    for (std::size_t j = 0; j < tokens.size(); ++j) {
      if (i == j) continue;
      row[j] = cosine(keys[static_cast<std::size_t>(tokens[i])],
                      keys[static_cast<std::size_t>(tokens[j])]);
      if (row[j] > threshold) latest = static_cast<int>(j);
    }
    if (latest >= 0) row[static_cast<std::size_t>(latest)] = 0;
    for (std::size_t j = 0; j < tokens.size(); ++j) {
      means[j] += row[j] / static_cast<double>(tokens.size());
    }
  }
  double sum = 0;
  for (double& mean : means) sum += mean = std::exp(mean);
  for (double& mean : means) mean /= sum;
  return means;
}

TEST_CASE("redundancy that follows a cache is that of the matrix of cosines", "[policies]") {
  const Vectors keys = vectors(60, 5, 1);
  const std::vector<float> rows = joined(keys);
  const bool falls_back = GENERATE(false, true);
  for (const double threshold : {0.5, -0.2}) {
    KeyRedundancy followed(threshold, falls_back, 100);
    KeyRedundancy computed(threshold, falls_back, 0);  // no cosines are kept
    KeyRedundancy mixed(threshold, falls_back, 25);    // those of a smaller cache
    Steps tokens;
    for (std::int32_t t = 0; t < 60; ++t) {
      tokens.push_back(t);
      if (t % 3 == 0 && t > 5) tokens.erase(tokens.begin() + t % static_cast<int>(tokens.size()));
      if (t == 40) tokens.erase(tokens.begin(), tokens.begin() + 20);  // most leave
      if (t % 4 == 1) continue;                                        // several at once
      const ResidentVectors resident(rows.data(), 5, tokens);
      const auto key = [&](std::size_t slot) { return resident[slot]; };
      followed.follow(tokens, key);
      computed.follow(tokens, key);
      mixed.follow(tokens, key);
      const std::vector<double> expected = redundancy(keys, tokens, threshold, falls_back);
      const std::vector<double> found = followed.softmax_of_means();
      REQUIRE(found == computed.softmax_of_means());
      REQUIRE(found == mixed.softmax_of_means());
      REQUIRE(found.size() == expected.size());
      for (std::size_t i = 0; i < found.size(); ++i) {
        REQUIRE(found[i] == Approx(expected[i]).epsilon(1e-9));
      }
    }
  }
}

/// The policy from its definition, written to be read.
struct Definition {
  const Shown& shown;
  int budget;
  int window;
  int kernel;
  double lambda;
  bool maximum;

  std::vector<double> importance(const Steps& tokens, int step) const {
    const int count = static_cast<int>(tokens.size()) - std::min<int>(window, tokens.size());
    std::vector<double> sums(static_cast<std::size_t>(count), 0);
    const int first = std::max(0, step - window + 1);
    for (int s = first; s <= step; ++s) {
      const Vectors& heads = shown.queries[static_cast<std::size_t>(s)];
      Vectors rows;  // of logits: one, or one per head
      for (const std::vector<float>& query : heads) {
        std::vector<float> row;
        for (int i = 0; i < count; ++i) {
          row.push_back(static_cast<float>(
              product(query, shown.keys[static_cast<std::size_t>(tokens[i])]) * shown.scale));
        }
        if (maximum && !rows.empty()) {
          for (int i = 0; i < count; ++i) rows[0][i] = std::max(rows[0][i], row[i]);
        } else {
          rows.push_back(row);
        }
      }
      for (const std::vector<float>& row : rows) {
        double sum = 0;
        for (const float x : row) sum += std::exp(double{x});
        for (int i = 0; i < count; ++i) {
          sums[i] += std::exp(double{row[i]}) / sum / static_cast<double>(rows.size()) /
                     (step - first + 1);
        }
      }
    }
    std::vector<double> pooled;
    for (int i = 0; i < count; ++i) {
      double most = 0;
      for (int j = std::max(0, i - kernel / 2); j <= std::min(count - 1, i + kernel / 2); ++j) {
        most = std::max(most, sums[j]);
      }
      pooled.push_back(most);
    }
    return pooled;
  }

  Steps evicted_after() const {
    const int n = static_cast<int>(shown.keys.size());
    Steps left(static_cast<std::size_t>(n), n);
    Steps tokens;
    for (int t = 0; t < n; ++t) {
      tokens.push_back(t);
      if (std::ssize(tokens) <= budget) continue;
      const std::vector<double> important = importance(tokens, t);
      const std::vector<double> redundant = redundancy(shown.keys, tokens, 0.5, false);
      std::size_t lowest = 0;
      const auto score = [&](std::size_t i) {
        return lambda * important[i] - (1 - lambda) * redundant[i];
      };
      for (std::size_t i = 1; i < important.size(); ++i) {
        if (score(i) < score(lowest)) lowest = i;
      }
      left[static_cast<std::size_t>(tokens[lowest])] = t;
      tokens.erase(tokens.begin() + static_cast<int>(lowest));
    }
    return left;
  }
};

TEST_CASE("r-kv keeps what its definition keeps", "[policies]") {
  const std::size_t n = 40;
  Shown shown{.attention = any_attention(n), .keys = vectors(n, 4, 2)};
  for (std::uint64_t t = 0; t < n; ++t) shown.queries.push_back(vectors(2, 4, 100 + t));
  shown.scale = 2;
  for (const char* heads : {"max", "mean"}) {
    for (const char* lambda : {"0.1", "0.7"}) {
      const std::string spec =
          std::string("r-kv:window=3,kernel=3,heads=") + heads + ",lambda=" + lambda;
      CAPTURE(spec);
      CHECK(policies_test::evicted_after(Spec(spec), 12, shown) ==
            Definition{shown, 12, 3, 3, std::stod(lambda), heads == std::string("max")}
                .evicted_after());
    }
  }
}

TEST_CASE("of tokens that repeat each other r-kv keeps the latest", "[policies]") {
  // Tokens 0, 1 and 2 have one key, and nothing is important.
  const Vectors keys = {{1, 0}, {1, 0}, {1, 0}, {0, 1}, {-1, 0}};
  Shown shown{.attention = any_attention(5), .keys = keys, .prompt = 5};
  shown.queries.assign(5, {{0, 0}});
  CHECK(policies_test::evicted_after(Spec("r-kv:window=1,lambda=0"), 4, shown)[2] == 5);
  const Steps left = policies_test::evicted_after(Spec("r-kv:window=1,lambda=0"), 3, shown);
  CHECK(left == Steps{4, 4, 5, 5, 5});
}

}  // namespace kvsim::r_kv_test
