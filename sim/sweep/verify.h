#pragma once

#include <string>
#include <vector>

#include "sim/attention/attention.h"
#include "sim/sweep/selection.h"

namespace kvsim {

/// How far the recomputed head outputs of one layer are from the recorded ones.
struct LayerCheck {
  std::string sequence;
  int layer = 0;
  bool has_output = false;     ///< false: no output was recorded
  double worst_error = 0;      ///< the largest output_error() of its units
  double limit = 0;            ///< 1e-2 if keys, values or outputs are float16, else 1e-4
  bool repeats_heads = false;  ///< a KV head has the keys and values of the one before it

  bool agrees() const { return worst_error <= limit; }
};

/// The largest |o_t - recorded| / sum_j a[t,j] |v_j| of a query head and step; `recorded` has one
/// [n, value_dim] per query head. What is summed may be much longer than the output, where values
/// cancel or a head rests on a token of nearly no value, and rounding is relative to what is
/// summed.
double output_error(const Unit& unit, const std::vector<Matrix>& recorded, const Backend& backend);

/// An estimate of the memory that verifying these units takes, in bytes.
std::size_t verify_memory(const std::vector<SelectedUnit>& units, int threads);

/// Reads every selected unit, which checks its numbers, and compares outputs; one check per
/// sequence and layer. Throws DataError for data that cannot be read.
std::vector<LayerCheck> verify(const Trace& trace, const Selection& selection,
                               const Backend& backend, int threads);

}  // namespace kvsim
