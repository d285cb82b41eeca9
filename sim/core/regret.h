#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "sim/core/result.h"

namespace kvsim {

/// A row retains more attention than a bound on all policies: one of the two is wrong.
class BoundBeaten : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Compares the rows of one unit, mode and seed with those among them that bound every policy at
/// the same budget and allocation. Rows to which the budget does not apply are not compared. Throws
/// BoundBeaten.
void check_bounds(const std::vector<Result>& rows);

/// The SQL of the view `regret`: for every row and every oracle that was replayed at the same unit,
/// budget, allocation, mode and seed, how much the oracle retains more, and which share of the way
/// from `window` to `optimal` the row has come (NULL where one of them is missing or they are
/// equal).
std::string regret_view();

}  // namespace kvsim
