#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "sim/replay/replay.h"
#include "traces/unit.h"

namespace kvsim::test_support {

/// Full attention of one query head by its definition, in double precision: n x n and n x
/// value_dim.
struct ReferenceAttention {
  using Rows = std::vector<std::vector<double>>;

  ReferenceAttention(const Unit& unit, int head);

  double sink;  ///< logit of the learned sink; minus infinity: none
  Rows logit;   ///< [t][j], j <= t; minus infinity where j is hidden or not selected
  Rows full;    ///< a[t][j]
  Rows output;
};

/// The full attention of a unit, shared by its replays.
struct ReferenceUnit {
  explicit ReferenceUnit(const Unit& unit);

  const Unit& unit;
  std::vector<ReferenceAttention> heads;
  std::vector<double> longest_value;  ///< per step t: max over j <= t of |v_j|
};

/// Softmax of `logit` over `tokens`, parallel to them. A sink of this logit takes its share of 1.
/// All 0 if nothing is visible.
std::vector<double> softmax(const std::vector<double>& logit, const std::vector<int>& tokens,
                            double sink = -std::numeric_limits<double>::infinity());

/// The weighted sum of the unit's values of `tokens`.
std::vector<double> weighted_value(const Unit& unit, const std::vector<int>& tokens,
                                   const std::vector<double>& weight);

double norm(const std::vector<double>& vector);

/// The settings of one reference replay.
struct ReferenceSetting {
  std::string policy;      ///< full, window, sink, random, lru, lfu, h2o, scissorhands, tova
                           ///< or topk
  int budget = 1;          ///< tokens
  int sinks = 4;           ///< sink
  int recent = 0;          ///< h2o and scissorhands, in tokens
  std::string score = {};  ///< h2o: sum or mean; all that accept it: full
  int history = 1;         ///< scissorhands, in steps
  int drop = 1;            ///< scissorhands, in tokens
  Mode mode = Mode::stream;
  int eviction_interval = 1;  ///< of tokens, or kNeverEvict
  Paging paging = {};
};

struct ReferenceOutcome {
  Outcome outcome;
  int followed = 0;  ///< evictions decided by rounding, see reference_replay()
};

/// The replay of a unit, written from the definitions. `evicted_after` is the result of another
/// implementation: the reference follows it where two scores are equal in single precision, and in
/// every choice of the policy `random`.
ReferenceOutcome reference_replay(const ReferenceUnit& unit, const ReferenceSetting& setting,
                                  const std::vector<std::int32_t>& evicted_after);

}  // namespace kvsim::test_support
