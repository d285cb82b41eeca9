#pragma once

#include <string>
#include <vector>

#include "sim/core/attention.h"
#include "sim/core/selection.h"

namespace kvsim {

/// How well recomputed attention agrees with what the model recorded for one layer.
struct LayerCheck {
  std::string sequence;
  int layer = 0;
  bool has_output = false;  ///< false: nothing was recorded to compare with
  double worst_error = 0;   ///< max over query heads and steps of |o - recorded| / |recorded|
  double limit = 0;         ///< 1e-2 if anything recorded is float16, 1e-4 otherwise

  bool agrees() const { return worst_error <= limit; }
};

/// Reads every selected unit, which checks its numbers, and compares the outputs. Throws DataError
/// for data that cannot be read.
std::vector<LayerCheck> verify(const Trace& trace, const Selection& selection,
                               const Backend& backend, int threads);

}  // namespace kvsim
