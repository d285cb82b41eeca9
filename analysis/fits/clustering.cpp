#include "analysis/fits/clustering.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/base/float_lanes.h"
#include "sim/base/interrupt.h"
#include "sim/base/vector_targets.h"

namespace kvsim {
namespace {

// The float of a squared distance s is off by at most (dim + 3) 2^-24 s: a difference rounds once,
// and its square doubles that and rounds once more; in any order a term is in at most dim - 1
// sums; 1 is for higher orders. Products below the normal floats lose at most dim 2^-126 more,
// less than 1e-31 in a million dimensions. So all floats are within r s + e of s, for r = (dim + 8)
// 2^-23 and e = 1e-31, and that of the nearest point is at most (least + e) (1 + r) / (1 - r) + e,
// where `least` is the smallest float. As (1 + r) / (1 - r) <= 1 + 4 r up to r = 1/2, this is at
// most least (1 + 4 r) + 4 e, and 1e-30 covers 4 e. Floats overflow only where this bound does.
constexpr double kFloatRounding = 0x1p-23;
constexpr double kFloatUnderflow = 1e-30;

/// The squared distances of a point to others, in single precision.
template <class Target, std::size_t kPoints>
KVSIM_INLINE void distances_of(const float* point, std::size_t dim, const float* const* others,
                               float* distances) {
  using Floats = typename Vectors<Target>::Floats;
  constexpr std::size_t kWidth = kFloats<Target>;
  Floats sums[kPoints] = {};
  std::size_t d = 0;
  for (; d + kWidth <= dim; d += kWidth) {
    Floats x;
    load(x, point + d);
    for (std::size_t k = 0; k < kPoints; ++k) {
      Floats y;
      load(y, others[k] + d);
      const Floats difference = x - y;
      sums[k] += difference * difference;
    }
  }
  for (std::size_t k = 0; k < kPoints; ++k) {
    float lanes[kWidth];
    store(sums[k], lanes);
    float sum = 0;
    for (const float lane : lanes) sum += lane;
    for (std::size_t rest = d; rest < dim; ++rest) {
      sum += (point[rest] - others[k][rest]) * (point[rest] - others[k][rest]);
    }
    distances[k] = sum;
  }
}

template <class Target>
KVSIM_INLINE void float_distances(const float* point, std::size_t dim, const float* const* others,
                                  std::size_t count, float* distances) {
  constexpr std::size_t kPoints = 4;
  std::size_t i = 0;
  for (; i + kPoints <= count; i += kPoints) {
    distances_of<Target, kPoints>(point, dim, others + i, distances + i);
  }
  for (; i < count; ++i) distances_of<Target, 1>(point, dim, others + i, distances + i);
}
KVSIM_KERNEL(void, float_distances,
             (const float* point, std::size_t dim, const float* const* others, std::size_t count,
              float* distances),
             (point, dim, others, count, distances))

}  // namespace

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
  const auto dim = static_cast<std::size_t>(points.cols());
  const double rounding = kFloatRounding * static_cast<double>(dim + 8);
  std::vector<Eigen::Index> first_rows;
  std::vector<const float*> firsts;
  std::vector<float> about;  // squared distances of a row to these
  OnlineClusters clusters;
  for (Eigen::Index row = 0; row < rows.rows(); ++row) {
    poll_interrupt();
    const float* const point = points.row(row).data();
    about.resize(firsts.size());
    best_float_distances(point, dim, firsts.data(), firsts.size(), about.data());
    // Which are nearest is decided in double precision, among those that may be.
    double limit = std::numeric_limits<double>::infinity();
    for (const float distance : about) limit = std::min<double>(limit, distance);
    limit = limit * (1 + 4 * rounding) + kFloatUnderflow;
    // The float of the nearest one may be infinite where that of another is not.
    if (limit >= std::numeric_limits<float>::max()) {
      limit = std::numeric_limits<double>::infinity();
    }
    double nearest = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < about.size(); ++i) {
      if (about[i] > limit) continue;
      nearest = std::min(nearest, (rows.row(row) - rows.row(first_rows[i])).squaredNorm());
    }
    if (nearest <= delta * delta) {
      clusters.radius = std::max(clusters.radius, std::sqrt(nearest));
    } else {
      first_rows.push_back(row);
      firsts.push_back(point);
    }
    clusters.counts.push_back(static_cast<int>(first_rows.size()));
  }
  return clusters;
}

}  // namespace kvsim
