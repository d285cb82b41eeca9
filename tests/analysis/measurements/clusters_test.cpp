#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "analysis/fits/clustering.h"
#include "analysis/fits/line_fit.h"
#include "sim/base/errors.h"
#include "tests/analysis/analysed.h"
#include "tests/support/units.h"

namespace kvsim::analysis_test::clusters_test {

using namespace test_support;

Matrix line(const std::vector<float>& positions) {
  Matrix points(static_cast<Eigen::Index>(positions.size()), 1);
  for (std::size_t i = 0; i < positions.size(); ++i) points(static_cast<int>(i), 0) = positions[i];
  return points;
}

template <class Position>
Matrix line_of(int tokens, Position position) {
  std::vector<float> positions;
  for (int i = 0; i < tokens; ++i) positions.push_back(static_cast<float>(position(i)));
  return line(positions);
}

// Token i is in cluster i mod m. Clusters have at most diameter 2 and are 100 apart at least.
Matrix planted(int tokens, int clusters) {
  Matrix points = random_unit({.tokens = tokens, .head_dim = 8}, 9).key;
  points.rowwise().normalize();
  for (int i = 0; i < tokens; ++i) points(i, i % clusters) += 102;
  return points;
}

Unit unit_of(const Matrix& keys) {
  Unit unit = random_unit({.tokens = static_cast<int>(keys.rows())}, 2);
  unit.key = keys;
  return unit;
}

/// The rows about keys, of the first query head.
std::vector<Row> of_keys(const std::string& spec, const Matrix& keys) {
  std::vector<Row> rows = analyse(spec, unit_of(keys));
  std::erase_if(rows, [](const Row& row) { return row.text("of") != "key"; });
  return rows;
}

double distance(const Matrix& points, int a, int b) {
  return (points.row(a).cast<double>() - points.row(b).cast<double>()).norm();
}

TEST_CASE("greedy k-centre goes to the farthest point", "[analysis]") {
  const Matrix points = line({0, 1, 5, 10});
  CHECK(greedy_radii(points, 100) == std::vector<double>{10, 5, 1, 0});
  CHECK(greedy_radii(points, 2) == std::vector<double>{10, 5});
  CHECK(greedy_radii(line({7, 7, 7}), 3) == std::vector<double>{0, 0, 0});
  CHECK(greedy_radii(line({7}), 3) == std::vector<double>{0});
  // Both ends are 4 away from token 0: the earlier one is taken, which leaves 4; then 1.
  CHECK(greedy_radii(line({0, -4, 1, 4, 3}), 3) == std::vector<double>{4, 4, 1});
}

/// The least that `cost` of the points' assignments to k clusters gives.
template <class Cost>
double best_assignment(int tokens, int k, const Cost& cost) {
  std::vector<int> cluster(static_cast<std::size_t>(tokens), 0);
  double best = cost(cluster);
  while (true) {
    auto next = std::find_if(cluster.begin(), cluster.end(), [k](int c) { return c + 1 < k; });
    if (next == cluster.end()) return best;
    ++*next;
    std::fill(cluster.begin(), next, 0);
    best = std::min(best, cost(cluster));
  }
}

TEST_CASE("the greedy radius is within a factor of 2 of the best clusters", "[analysis]") {
  const std::uint64_t seed = GENERATE(range(1, 9));
  constexpr int kTokens = 7;
  const Matrix points = random_unit({.tokens = kTokens, .head_dim = 2}, seed).key;
  // The largest distance within a cluster, as in Definition 1.
  const auto widest = [&](const std::vector<int>& cluster) {
    double widest_so_far = 0;
    for (int a = 0; a < kTokens; ++a) {
      for (int b = 0; b < a; ++b) {
        if (cluster[a] == cluster[b])
          widest_so_far = std::max(widest_so_far, distance(points, a, b));
      }
    }
    return widest_so_far;
  };
  // The largest distance from the best centre among its cluster's points.
  const auto radius_of = [&](const std::vector<int>& cluster) {
    std::vector<double> radius(kTokens, 1e9);
    for (int centre = 0; centre < kTokens; ++centre) {
      double farthest = 0;
      for (int i = 0; i < kTokens; ++i) {
        if (cluster[i] == cluster[centre])
          farthest = std::max(farthest, distance(points, i, centre));
      }
      radius[cluster[centre]] = std::min(radius[cluster[centre]], farthest);
    }
    double largest = 0;
    for (const int c : cluster) largest = std::max(largest, radius[c]);
    return largest;
  };
  const std::vector<double> radii = greedy_radii(points, 4);
  REQUIRE(radii.size() == 4);
  for (int k = 1; k <= 4; ++k) {
    CAPTURE(seed, k);
    const double radius = radii[k - 1];
    const double narrowest = best_assignment(kTokens, k, widest);
    const double smallest = best_assignment(kTokens, k, radius_of);
    CHECK(radius <= 2 * smallest + 1e-12);
    CHECK(radius >= smallest - 1e-12);
    // (k, 2 radius)-clusterable, and not (k, d)-clusterable for any d < radius.
    CHECK(narrowest <= 2 * radius + 1e-12);
    CHECK(narrowest >= radius - 1e-12);
  }
}

TEST_CASE("planted clusters are seen at as many centres, and no fewer", "[analysis]") {
  const Matrix points = planted(60, 5);
  const std::vector<double> radii = greedy_radii(points, 60);
  for (int k = 1; k < 5; ++k) CHECK(radii[k - 1] > 100);
  CHECK(radii[4] <= 2);
  CHECK(radii[4] > 0.5);
  CHECK(radii[59] == 0);
}

TEST_CASE("clusters are shown for powers of 2 centres", "[analysis]") {
  const std::vector<Row> rows = of_keys("clusters", planted(21, 4));
  REQUIRE(rows.size() == 5);
  const std::vector<double> radii = greedy_radii(planted(21, 4), 21);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::size_t k = std::size_t{1} << i;
    CHECK(rows[i].integer("k") == static_cast<std::int64_t>(k));
    CHECK(rows[i].real("radius") == radii[k - 1]);
    CHECK(rows[i].real("relative_radius") == Approx(radii[k - 1] / radii[0]));
  }
  CHECK(rows[1].real("radius") > 100);
  CHECK(rows[2].real("radius") <= 2);
  CHECK(of_keys("clusters:most=7", planted(21, 4)).size() == 3);
  CHECK(of_keys("clusters:most=8", planted(21, 4)).size() == 4);
  CHECK(of_keys("clusters", line({3, 3, 3})).at(0).is_null("relative_radius"));
}

TEST_CASE("a point joins a cluster whose first point is near enough", "[analysis]") {
  // 5 begins a cluster that 7 joins; 8 is near 7 but not near 5.
  CHECK(cluster_online(line({0, 5, 7, 8, 2, 3.5}), 2).counts == std::vector<int>{1, 2, 2, 3, 3, 3});
  CHECK(cluster_online(line({0, 0, 1, 0}), 0).counts == std::vector<int>{1, 1, 2, 2});
}

/// Compares with the definition, all distances in double precision.
void check_online(const Matrix& points, double delta) {
  const MatrixDouble wide = points.cast<double>();
  std::vector<Eigen::Index> firsts;
  std::vector<int> counts;
  double radius = 0;
  for (Eigen::Index t = 0; t < wide.rows(); ++t) {
    double nearest = std::numeric_limits<double>::infinity();
    for (const Eigen::Index first : firsts) {
      nearest = std::min(nearest, (wide.row(t) - wide.row(first)).squaredNorm());
    }
    if (nearest > delta * delta) {
      firsts.push_back(t);
    } else {
      radius = std::max(radius, std::sqrt(nearest));
    }
    counts.push_back(static_cast<int>(firsts.size()));
  }
  REQUIRE(firsts.size() > 1);
  REQUIRE(std::ssize(firsts) < wide.rows());
  const OnlineClusters found = cluster_online(points, delta);
  CHECK(found.counts == counts);
  CHECK(found.radius == radius);
}

TEST_CASE("to the last bit: a point joins the nearest cluster, however the points are scaled",
          "[analysis]") {
  for (const float scale : {1e-22F, 1e-3F, 1.0F, 1e17F, 1e25F}) {
    CAPTURE(scale);
    check_online(scale * random_unit({.tokens = 150, .head_dim = 37}, 3).key, 8.0 * scale);
  }
}

TEST_CASE("to the last bit: a point joins the nearest of clusters that floats do not tell apart",
          "[analysis]") {
  // The last squares are about the largest float, which those of some clusters exceed.
  const double most = std::sqrt(double{std::numeric_limits<float>::max()});
  for (const int dim : {1, 8, 16, 64}) {
    for (const double radius : {1e-3, 1.0, most * (1 - 2e-8), most * (1 - 5e-7), most}) {
      Matrix points = random_unit({.tokens = 60, .head_dim = dim}, 5).key;
      // First rows on a sphere, then points within 1e-9 of its centre.
      for (Eigen::Index t = 0; t < 60; ++t) {
        const double length = points.row(t).cast<double>().norm();
        const double factor = radius / length * (t < 40 ? 1 : 1e-9);
        points.row(t) = (factor * points.row(t).cast<double>()).cast<float>();
      }
      CAPTURE(dim, radius);
      check_online(points, radius);
      check_online(points, radius * (1 - 1e-8));
    }
  }
}

TEST_CASE("planted clusters do not grow in number", "[analysis]") {
  const std::vector<int> counts = cluster_online(planted(200, 5), 2).counts;
  for (int t = 0; t < 200; ++t) CHECK(counts[t] == std::min(t + 1, 5));
  const std::vector<Row> rows = of_keys("cluster-growth:delta=2", planted(200, 5));
  std::vector<std::int64_t> prefixes;
  for (const Row& row : rows) {
    prefixes.push_back(row.integer("tokens"));
    CHECK(row.integer("clusters") == 5);
    CHECK(row.real("delta") == 2);
    CHECK(row.text("delta_request") == "2");
    CHECK(row.real("exponent") == Approx(0).margin(1e-12));
    CHECK(row.real("exponent_error") == Approx(0).margin(1e-12));
    CHECK(row.integer("sublinear") == 1);
  }
  CHECK(prefixes == std::vector<std::int64_t>{8, 11, 16, 23, 32, 45, 64, 91, 128, 181, 200});
}

TEST_CASE("points that go on in a line take ever more clusters", "[analysis]") {
  const Row each = of_keys("cluster-growth:delta=0.5", line_of(500, [](int i) { return i; })).at(0);
  CHECK(each.real("exponent") == Approx(1));
  CHECK(each.integer("sublinear") == 0);
  const Row third = of_keys("cluster-growth:delta=2", line_of(500, [](int i) { return i; })).at(0);
  CHECK(third.real("exponent") == Approx(1).margin(0.03));
}

TEST_CASE("clusters that grow as the root of the text have exponent 1/2", "[analysis]") {
  // Points i = 1 .. n are in ceil(sqrt(n)) places.
  const Matrix points = line_of(3000, [](int i) { return 10 * std::ceil(std::sqrt(i + 1.0)); });
  const Row row = of_keys("cluster-growth:delta=1", points).back();
  CHECK(row.integer("clusters") == 55);
  CHECK(row.real("exponent") == Approx(0.5).margin(0.03));
  CHECK(row.real("exponent_error") < 0.02);
  CHECK(row.integer("sublinear") == 1);
}

TEST_CASE("growth is not measured on fewer than three prefixes", "[analysis]") {
  const std::vector<Row> rows = of_keys("cluster-growth", planted(11, 4));
  CHECK(rows.size() == 2);
  CHECK(rows[0].is_null("exponent"));
  CHECK(rows[0].is_null("exponent_error"));
  CHECK(rows[0].is_null("sublinear"));
  CHECK(!of_keys("cluster-growth", planted(12, 4)).at(0).is_null("exponent"));
  const std::vector<Row> one = of_keys("cluster-growth", planted(1, 1));
  REQUIRE(one.size() == 1);
  CHECK(one[0].integer("tokens") == 1);
  CHECK(one[0].integer("clusters") == 1);
}

TEST_CASE("delta is a distance, or relative to the largest from token 0", "[analysis]") {
  const Matrix points = line({3, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 3});
  const Row relative = of_keys("cluster-growth:delta=0.25r", points).back();
  CHECK(relative.real("delta") == 2);
  CHECK(relative.text("delta_request") == "0.25r");
  const Row absolute = of_keys("cluster-growth:delta=2", points).back();
  CHECK(absolute.real("delta") == 2);
  CHECK(absolute.integer("clusters") == relative.integer("clusters"));
  CHECK(of_keys("cluster-growth", points).back().real("delta") == 4);
  for (const std::string text : {"", "r", "x", "-1", "-1r", "1rr", "1 r", "2e30", "nan", "inf"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(of_keys("cluster-growth:delta=" + text, points), UsageError);
  }
  CHECK_THROWS_WITH(of_keys("cluster-growth:delta=1rr", points),
                    Catch::Contains("delta: '1rr' is no distance; write 2.5 or 0.5r"));
}

TEST_CASE("keys and values are measured each, and shared by the query heads", "[analysis]") {
  Unit unit = random_unit({.tokens = 30, .group = 3}, 4);
  unit.value = planted(30, 4);
  const std::string analysis = GENERATE("clusters", "cluster-growth");
  const std::vector<Row> rows = analyse(analysis, unit);
  REQUIRE(rows.size() % 3 == 0);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    CHECK(rows[i].head == static_cast<int>(i % 3));
    CHECK(rows[i].values == rows[i - i % 3].values);
  }
  CHECK(rows.front().text("of") == "key");
  CHECK(rows.back().text("of") == "value");
  const std::string column = analysis == "clusters" ? "radius" : "delta";
  const double share = analysis == "clusters" ? 1 : 0.5;
  CHECK(rows.front().real(column) == Approx(share * greedy_radii(unit.key, 1)[0]));
  const auto value = std::find_if(rows.begin(), rows.end(),
                                  [](const Row& row) { return row.text("of") == "value"; });
  CHECK(value->real(column) == Approx(share * greedy_radii(unit.value, 1)[0]));
}

TEST_CASE("a line is fitted by least squares", "[analysis]") {
  const std::vector<double> x{0, 1, 2};
  const auto fit = fit_line(x, std::vector<double>{0, 1, 5});
  REQUIRE(fit);
  CHECK(fit->slope == Approx(2.5));
  CHECK(fit->intercept == Approx(-0.5));
  // Residuals 0.5, -1 and 0.5; one degree of freedom.
  CHECK(fit->slope_error == Approx(std::sqrt(1.5 / 2)));
  const auto exact = fit_line(std::vector<double>{1, 2, 4, 7}, std::vector<double>{5, 3, -1, -7});
  REQUIRE(exact);
  CHECK(exact->slope == Approx(-2));
  CHECK(exact->intercept == Approx(7));
  CHECK(exact->slope_error == Approx(0).margin(1e-12));
  CHECK(!fit_line(std::vector<double>{1, 2}, std::vector<double>{1, 2}));
  CHECK(!fit_line(std::vector<double>{3, 3, 3}, std::vector<double>{1, 2, 3}));
}

TEST_CASE("linear growth is not sublinear, however wide the clusters", "[analysis]") {
  Unit unit = test_support::random_unit({.tokens = 1000, .head_dim = 1}, 1);
  for (int j = 0; j < 1000; ++j) unit.key(j, 0) = static_cast<float>(j);
  for (const char* spec : {"cluster-growth:delta=2", "cluster-growth:delta=9"}) {
    const Row row = analyse(spec, unit).at(0);
    CHECK(row.real("exponent") == Approx(1).epsilon(0.05));
    CHECK(row.integer("sublinear") == 0);
  }
}

}  // namespace kvsim::analysis_test::clusters_test
