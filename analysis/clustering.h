#pragma once

#include <vector>

#include "sim/core/attention.h"

namespace kvsim {

/// Greedy k-centre (Gonzalez 1985, Dyer and Frieze 1985; SubGen section 3.2): the first centre is
/// row 0 of `points` [n, d], the next is always the row farthest from those chosen, the first of
/// several. Element k - 1 is the radius with k centres, k = 1 .. most_centres (at most n): the
/// largest distance of a row to its nearest centre. It is at most twice the best possible.
std::vector<double> greedy_radii(const Matrix& points, int most_centres);

/// What SubGen Algorithm 1, lines 12 to 21, makes of the rows of `points` [n, d] in their order: a
/// row joins the nearest of the clusters so far if its first row is at most `delta` away, else it
/// begins one.
struct OnlineClusters {
  std::vector<int> counts;  ///< [n]: clusters of rows 0 .. t
  double radius = 0;        ///< largest distance of a row to the first row of its cluster
};

OnlineClusters cluster_online(const Matrix& points, double delta);

}  // namespace kvsim
