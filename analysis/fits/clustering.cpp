#include "analysis/fits/clustering.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/base/interrupt.h"

namespace kvsim {

std::vector<double> greedy_radii(const Matrix& points, int most_centres) {
  const MatrixDouble rows = points.cast<double>();
  Eigen::VectorXd nearest =
      Eigen::VectorXd::Constant(rows.rows(), std::numeric_limits<double>::infinity());
  std::vector<double> radii;
  Eigen::Index centre = 0;
  for (int k = 1; k <= std::min<Eigen::Index>(most_centres, rows.rows()); ++k) {
    poll_interrupt();
    for (Eigen::Index i = 0; i < rows.rows(); ++i) {
      nearest[i] = std::min(nearest[i], (rows.row(i) - rows.row(centre)).squaredNorm());
    }
    const auto farthest = std::max_element(nearest.begin(), nearest.end());
    centre = farthest - nearest.begin();
    radii.push_back(std::sqrt(*farthest));
  }
  return radii;
}

OnlineClusters cluster_online(const Matrix& points, double delta) {
  const MatrixDouble rows = points.cast<double>();
  std::vector<Eigen::Index> first_rows;
  OnlineClusters clusters;
  for (Eigen::Index row = 0; row < rows.rows(); ++row) {
    poll_interrupt();
    double nearest = std::numeric_limits<double>::infinity();
    for (const Eigen::Index first : first_rows) {
      nearest = std::min(nearest, (rows.row(row) - rows.row(first)).squaredNorm());
    }
    if (nearest <= delta * delta) {
      clusters.radius = std::max(clusters.radius, std::sqrt(nearest));
    } else {
      first_rows.push_back(row);
    }
    clusters.counts.push_back(static_cast<int>(first_rows.size()));
  }
  return clusters;
}

}  // namespace kvsim
