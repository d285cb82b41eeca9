#pragma once

#include <vector>

#include "traces/unit.h"

namespace kvsim {

/// Of each row t of a matrix the spectral norm of rows 0 .. t: within 1e-11 of it, relative to it,
/// up to the rounding of the Gram matrix, which is a sum of t + 1 products in double precision.
std::vector<double> spectral_norms(const Matrix& rows);

}  // namespace kvsim
