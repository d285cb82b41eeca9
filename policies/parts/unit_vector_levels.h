#pragma once

#include <vector>

namespace kvsim {

/// The 2^bits levels, ascending, to which a coordinate of a random unit vector of `dim` dimensions
/// is rounded with the least mean squared error (TurboQuant: Zandieh et al. 2025, section 3.1,
/// equation 4; Lloyd 1982, Max 1960). A coordinate has the density (1 - x^2)^((dim - 3) / 2) on
/// [-1, 1], up to a factor; that of one dimension, which is -1 or 1, is taken as that of two.
/// `bits` is 0 .. 8. Remembers what it has computed; may be called by several threads.
const std::vector<double>& unit_vector_levels(int dim, int bits);

}  // namespace kvsim
