#include <catch2/catch.hpp>
#include <cmath>
#include <set>
#include <vector>

#include "policies/parts/matrix_product_sketch.h"
#include "policies/parts/normalizer_sketch.h"
#include "tests/policies/chi_square.h"

namespace kvsim::subgen_sketches_test {

using namespace policies_test;

using Vectors = std::vector<std::vector<float>>;

constexpr int kSeeds = 10000;

// Critical values of chi-square at 1 in 10,000 by degrees of freedom.
constexpr double kCritical3 = 21.11;
constexpr double kCritical4 = 23.51;
constexpr double kCritical15 = 44.26;
constexpr double kCritical24 = 58.61;

Vectors random_keys(int count, std::uint64_t seed) {
  Vectors keys;
  for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(count); ++i) {
    std::vector<float>& key = keys.emplace_back();
    for (std::uint64_t j = 0; j < 3; ++j) {
      key.push_back(static_cast<float>(random_bits(random_bits(seed, i), j) >> 40) * 0x1p-21F);
    }
  }
  return keys;
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += std::pow(static_cast<double>(a[i]) - b[i], 2);
  return std::sqrt(sum);
}

// Squared norms 1, 4, 0, 9 and 2.
const Vectors kValues = {{1, 0}, {0, -2}, {0, 0}, {3, 0}, {1, 1}};
const std::vector<double> kShares = {1. / 16, 4. / 16, 9. / 16, 2. / 16};
constexpr int kCell[] = {0, 1, -1, 2, 3};

MatrixProductSketch sketch_of_values(std::size_t num_samples, std::uint64_t seed) {
  MatrixProductSketch sketch(num_samples, Coins(seed, "test"));
  for (std::size_t i = 0; i < kValues.size(); ++i) {
    sketch.update(static_cast<std::int32_t>(i), kValues[i]);
  }
  return sketch;
}

TEST_CASE("mu is the sum of the squared norms of the values (Lemma 1)", "[policies]") {
  CHECK(sketch_of_values(3, 1).mu() == 16);
  CHECK(sketch_of_values(3, 1).samples().size() == 3);
}

TEST_CASE("values are sampled by their squared norms, slot by slot independently (Lemma 1)",
          "[policies]") {
  std::vector<int> first(4);
  std::vector<int> last(4);
  std::vector<int> pairs(16);
  std::vector<double> pair_shares;
  for (const double a : kShares) {
    for (const double b : kShares) pair_shares.push_back(a * b);
  }
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const MatrixProductSketch sketch = sketch_of_values(5, seed);
    const int a = kCell[sketch.samples().front().token];
    const int b = kCell[sketch.samples().back().token];
    REQUIRE(std::min(a, b) >= 0);  // never the zero
    ++first[static_cast<std::size_t>(a)];
    ++last[static_cast<std::size_t>(b)];
    ++pairs[static_cast<std::size_t>(4 * a + b)];
  }
  CHECK(chi_square(first, kShares, kSeeds) < kCritical3);
  CHECK(chi_square(last, kShares, kSeeds) < kCritical3);
  CHECK(chi_square(pairs, pair_shares, kSeeds) < kCritical15);
}

TEST_CASE("each sample knows its squared norm", "[policies]") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const MatrixProductSketch sketch = sketch_of_values(5, seed);
    for (const auto& sample : sketch.samples()) {
      const auto& value = kValues[static_cast<std::size_t>(sample.token)];
      CHECK(sample.squared_norm == value[0] * value[0] + value[1] * value[1]);
    }
  }
}

TEST_CASE("zero values are no samples, not even the first", "[policies]") {
  MatrixProductSketch sketch(2, Coins(1, "test"));
  const std::vector<float> zero = {0, 0};
  sketch.update(0, zero);
  sketch.update(1, zero);
  CHECK(sketch.samples().empty());
  CHECK(sketch.mu() == 0);
  sketch.update(2, std::vector<float>{0, 2});
  sketch.update(3, zero);
  REQUIRE(sketch.samples().size() == 2);
  CHECK(sketch.samples()[0].token == 2);
  CHECK(sketch.samples()[1].token == 2);
  CHECK(sketch.weight(sketch.samples()[0]) == 0.5);  // mu / (s |v|^2) = 4 / (2 * 4)
}

// The clusters as a test sees them grow: which tokens joined which.
struct Partition {
  NormalizerSketch sketch;
  std::vector<std::vector<std::int32_t>> members = {};

  void update(std::int32_t token, const std::vector<float>& key) {
    std::vector<std::int64_t> counts;
    for (const auto& cluster : sketch.clusters()) counts.push_back(cluster.count);
    sketch.update(token, key);
    REQUIRE(sketch.clusters().size() <= counts.size() + 1);
    counts.resize(sketch.clusters().size());
    members.resize(sketch.clusters().size());
    int joined = 0;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      if (sketch.clusters()[i].count == counts[i]) continue;
      REQUIRE(sketch.clusters()[i].count == counts[i] + 1);
      members[i].push_back(token);
      ++joined;
    }
    REQUIRE(joined == 1);
  }
};

TEST_CASE("clusters partition the keys as Lemma 2 says", "[policies]") {
  constexpr int kTokens = 200;
  constexpr std::size_t kSamples = 3;
  for (const double delta : {0.0, 1.0, 2.5, 5.0, 100.0}) {
    const Vectors keys = random_keys(kTokens, 5);
    Partition partition{NormalizerSketch(delta, kSamples, kTokens, Coins(3, "test"))};
    for (int token = 0; token < kTokens; ++token) {
      partition.update(token, keys[static_cast<std::size_t>(token)]);
      const auto clusters = partition.sketch.clusters();
      for (std::size_t i = 0; i < clusters.size(); ++i) {
        const auto& cluster = clusters[i];
        const auto& members = partition.members[i];
        const auto& x = keys[static_cast<std::size_t>(cluster.representative)];
        CAPTURE(delta, token, i);
        REQUIRE(cluster.representative == members.front());                   // property 1
        REQUIRE(cluster.count == static_cast<std::int64_t>(members.size()));  // property 2
        for (const std::int32_t member : members) {                           // property 3
          REQUIRE(distance(x, keys[static_cast<std::size_t>(member)]) <= delta);
        }
        for (std::size_t j = 0; j < i; ++j) {  // property 4
          REQUIRE(distance(x, keys[static_cast<std::size_t>(clusters[j].representative)]) > delta);
        }
        REQUIRE(cluster.samples.size() == kSamples);  // property 5
        const std::set<std::int32_t> held(members.begin(), members.end());
        for (const std::int32_t sample : cluster.samples) REQUIRE(held.contains(sample));
      }
    }
  }
}

TEST_CASE("a key joins its nearest cluster", "[policies]") {
  const std::vector<float> line = {0, 10, 16, 4, 6, 13.5F, -3};
  Partition partition{NormalizerSketch(5, 1, 10, Coins(1, "test"))};
  for (std::size_t i = 0; i < line.size(); ++i) {
    partition.update(static_cast<std::int32_t>(i), {line[i], 2});
  }
  CHECK(partition.members == std::vector<std::vector<std::int32_t>>{{0, 3, 6}, {1, 4}, {2, 5}});
}

TEST_CASE("a key at the distance delta still joins, one beyond does not", "[policies]") {
  Partition partition{NormalizerSketch(5, 1, 10, Coins(1, "test"))};
  partition.update(0, {0, 0});
  partition.update(1, {3, 4});
  partition.update(2, {3, -4.0001F});
  CHECK(partition.members == std::vector<std::vector<std::int32_t>>{{0, 1}, {2}});
}

TEST_CASE("where no cluster more is allowed a key joins the nearest from afar", "[policies]") {
  const std::vector<float> line = {0, 10, 0.5F, 40, 4, -90};
  Partition partition{NormalizerSketch(1, 2, 2, Coins(1, "test"))};
  for (std::size_t i = 0; i < line.size(); ++i) {
    partition.update(static_cast<std::int32_t>(i), {line[i]});
  }
  CHECK(partition.members == std::vector<std::vector<std::int32_t>>{{0, 2, 4, 5}, {1, 3}});
}

TEST_CASE("distances count every coordinate of a key", "[policies]") {
  for (const std::size_t dim : {1U, 7U, 8U, 9U, 64U, 70U}) {
    for (std::size_t coordinate = 0; coordinate < dim; ++coordinate) {
      Partition partition{NormalizerSketch(1, 1, 10, Coins(1, "test"))};
      std::vector<float> key(dim, 3);
      partition.update(0, key);
      key[coordinate] = 5;
      partition.update(1, key);
      CAPTURE(dim, coordinate);
      CHECK(partition.members.size() == 2);
    }
  }
}

TEST_CASE("a cluster's samples are uniform and independent (Lemma 2, property 5)", "[policies]") {
  std::vector<int> first(5);
  std::vector<int> last(5);
  std::vector<int> pairs(25);
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    NormalizerSketch sketch(1, 4, 10, Coins(seed, "test"));
    // Tokens 1 and 4 are in another cluster.
    const std::vector<float> line = {0, 9, 0.5F, -1, 9, 1, 0};
    for (std::size_t i = 0; i < line.size(); ++i) {
      sketch.update(static_cast<std::int32_t>(i), std::vector{line[i]});
    }
    const auto& samples = sketch.clusters()[0].samples;
    constexpr int kMember[] = {0, -1, 1, 2, -1, 3, 4};
    const auto a = static_cast<std::size_t>(kMember[samples.front()]);
    const auto b = static_cast<std::size_t>(kMember[samples.back()]);
    ++first.at(a);
    ++last.at(b);
    ++pairs.at(5 * a + b);
  }
  CHECK(chi_square(first, std::vector(5, 1. / 5), kSeeds) < kCritical4);
  CHECK(chi_square(last, std::vector(5, 1. / 5), kSeeds) < kCritical4);
  CHECK(chi_square(pairs, std::vector(25, 1. / 25), kSeeds) < kCritical24);
}

TEST_CASE("representatives are known by their tokens", "[policies]") {
  NormalizerSketch sketch(1, 1, 10, Coins(1, "test"));
  const std::vector<float> line = {0, 9, 0.5F, 20};
  for (std::size_t i = 0; i < line.size(); ++i) {
    sketch.update(static_cast<std::int32_t>(10 + i), std::vector{line[i]});
  }
  for (const std::int32_t token : {10, 11, 13}) CHECK(sketch.is_representative(token));
  for (const std::int32_t token : {0, 9, 12, 14}) CHECK_FALSE(sketch.is_representative(token));
}

}  // namespace kvsim::subgen_sketches_test
