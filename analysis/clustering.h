#pragma once

#include <vector>

#include "sim/core/attention.h"

namespace kvsim {

/// Greedy k-centre (Gonzalez 1985, Dyer and Frieze 1985; SubGen section 3.2): the first centre is
/// row 0 of `points` [n, d], the next is always the row farthest from those chosen, the first of
/// several. Element k - 1 is the radius with k centres, k = 1 .. most_centres (at most n): the
/// largest distance of a row to its nearest centre. It is at most twice the best possible.
std::vector<double> greedy_radii(const Matrix& points, int most_centres);

/// SubGen Algorithm 1, lines 12 to 21: a row joins the nearest of the clusters so far if its first
/// row is at most `delta` away, else it begins one. Element t is the number of clusters of rows
/// 0 .. t.
std::vector<int> count_clusters(const Matrix& points, double delta);

}  // namespace kvsim
