#pragma once

#include <vector>

namespace kvsim {

using Rows = std::vector<std::vector<double>>;  ///< a matrix, row by row; each has the same length

/// The mean over rows of the sum of their squares.
double mean_square(const Rows& rows);

/// The factors w of the columns of x, [rows, columns], that minimise |x w - 1|^2 +
/// penalty |w - 1|^2. They may be negative. `penalty` is larger than 0.
std::vector<double> factors_to_one(const Rows& x, double penalty);

/// Replaces `y`, [rows, d], by (x x' + penalty I)^-1 y: x' times that is the least change of z, for
/// which |x z - y|^2 + penalty |z|^2 is least. `penalty` is larger than 0.
void solve_dual(const Rows& x, double penalty, Rows& y);

}  // namespace kvsim
