#pragma once

#include <vector>

#include "traces/unit.h"

namespace kvsim {

/// Of each row t of a matrix the spectral norm of rows 0 .. t: within 1e-11 of it, relative to it.
std::vector<double> spectral_norms(const Matrix& rows);

}  // namespace kvsim
