#pragma once

#include <vector>

#include "traces/hdf5/place.h"
#include "traces/unit.h"

namespace kvsim {

/// Checks that every logit fits a float. A logit is at most the product of the lengths of its
/// vectors.
class LogitBound {
 public:
  LogitBound(Place layer, double scale);

  /// Adds rows of queries and keys. Throws DataError if a logit of those added may not fit.
  void add(const std::vector<Matrix>& query, const Matrix& key);

 private:
  Place layer_;
  double scale_;
  double query_ = 0;  // the length of the longest so far
  double key_ = 0;
};

}  // namespace kvsim
