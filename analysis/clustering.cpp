#include "analysis/clustering.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace kvsim {
namespace {

double squared_distance(const Matrix& points, Eigen::Index a, Eigen::Index b) {
  return (points.row(a) - points.row(b)).cast<double>().squaredNorm();
}

}  // namespace

std::vector<double> greedy_radii(const Matrix& points, int most_centres) {
  std::vector<double> nearest(static_cast<std::size_t>(points.rows()),
                              std::numeric_limits<double>::infinity());
  std::vector<double> radii;
  Eigen::Index centre = 0;
  for (int k = 1; k <= std::min<Eigen::Index>(most_centres, points.rows()); ++k) {
    for (std::size_t i = 0; i < nearest.size(); ++i) {
      const double distance = squared_distance(points, static_cast<Eigen::Index>(i), centre);
      nearest[i] = std::min(nearest[i], distance);
    }
    const auto farthest = std::max_element(nearest.begin(), nearest.end());
    centre = farthest - nearest.begin();
    radii.push_back(std::sqrt(*farthest));
  }
  return radii;
}

std::vector<int> count_clusters(const Matrix& points, double delta) {
  std::vector<Eigen::Index> first_rows;
  std::vector<int> counts;
  for (Eigen::Index row = 0; row < points.rows(); ++row) {
    const bool joins = std::any_of(first_rows.begin(), first_rows.end(), [&](Eigen::Index first) {
      return squared_distance(points, row, first) <= delta * delta;
    });
    if (!joins) first_rows.push_back(row);
    counts.push_back(static_cast<int>(first_rows.size()));
  }
  return counts;
}

}  // namespace kvsim
