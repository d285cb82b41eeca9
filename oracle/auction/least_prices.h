#pragma once

#include <vector>

#include "oracle/auction/assignment.h"
#include "oracle/auction/bidders.h"

namespace kvsim {

/// The least of all prices of tokens at which each bidder's own tokens are its best ones, 0 for
/// what stays: those of the pass in oracle/assignment. `assignment` is one of least loss, and its
/// prices prove that. Throws Interrupted.
std::vector<double> least_prices(const Bidders& bidders, const Assignment& assignment);

}  // namespace kvsim
