#pragma once

#include <vector>

#include "traces/unit.h"

namespace kvsim {

/// Greedy k-centre (Gonzalez 1985, Dyer and Frieze 1985; SubGen section 3.2) of the rows of
/// `points`, [n, d]. The first centre is row 0; each next one is the row farthest from all centres,
/// the first of several. Element k - 1 is the radius with k centres, k = 1 .. min(most_centres, n):
/// the largest distance of a row to its nearest centre, at most twice the optimum.
std::vector<double> greedy_radii(const Matrix& points, int most_centres);

/// The result of cluster_online().
struct OnlineClusters {
  std::vector<int> counts;  ///< [n]: the number of clusters of rows 0 .. t
  double radius = 0;        ///< largest distance of a row to the first row of its cluster
};

/// Clusters the rows of `points`, [n, d], in their order, as SubGen Algorithm 1 does (lines 12 to
/// 21): a row joins the nearest cluster if the cluster's first row is at most `delta` away, else it
/// starts a new cluster.
OnlineClusters cluster_online(const Matrix& points, double delta);

}  // namespace kvsim
