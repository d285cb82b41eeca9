#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sim/replay/replay.h"

namespace kvsim::bench {

/// One line of the benchmark: what is done to every head.
struct Case {
  std::string id;     ///< as the JSON file and tests/bench/report.py name it
  std::string title;  ///< for people
  std::vector<Configuration> configurations = {};
  std::function<std::vector<Outcome>(const Unit&)> run;  ///< outcomes are per configuration
  bool reads_trace = false;  ///< reads the head from a file first, in place of the one in memory

  /// Multiplications and additions on one head, done the direct way: queries times keys and
  /// attention times values for every pair of a step and a token it sees, and for every
  /// configuration attention times values over what is resident. What an engine spares shows as a
  /// higher rate.
  double flops(int num_tokens, int head_dim) const;
};

/// All cases for sequences of this length. The first is the exact attention pass alone.
/// `backend` has to outlive them.
std::vector<Case> all_cases(int num_tokens, const Backend& backend);

/// One multiplication and one addition per element of a vector, for every pair of a step and a
/// token that it sees.
double pair_flops(int num_tokens, int most_visible, int head_dim);

}  // namespace kvsim::bench
