#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/support/reference_replay.h"

namespace kvsim::test_support {

/// Per token the step after which it left.
using Evictions = std::vector<std::int32_t>;

/// A reference's step-by-step results on one unit, to compare with an outcome.
class ReferenceRecord {
 public:
  ReferenceRecord(const ReferenceUnit& unit, Mode mode);

  /// Adds one query head at one step: it attended to `tokens`, with this output. NaN: an output
  /// that the definitions leave undefined. Ignores steps of the prompt.
  void measure(int head, int t, const std::vector<int>& tokens, const std::vector<double>& output);

  /// Describes the first difference of each kind; empty if there are none.
  std::string differences(const Outcome& outcome) const;

  bool is_measured(int t) const { return t >= first_measured_; }
  /// Whether tokens may leave after this step: not before the prompt has ended.
  bool may_evict(int t) const { return t + 1 >= first_measured_; }

  Evictions evicted_after;

 private:
  std::string difference(const std::string& what, const Matrix& found,
                         const ReferenceAttention::Rows& expected) const;

  const ReferenceUnit& reference_;
  int first_measured_;
  ReferenceAttention::Rows recall_, error_;  // [head][step]
  std::int64_t misses_ = 0;
};

/// The unit with each key and value as its stored form reads back.
Unit quantised(Unit unit, const Quantization& quantization);

/// The weighted sum of the values that step `t` sees: from `stored`, its own token's from `unit`.
std::vector<double> cached_value(const Unit& unit, const Unit& stored, int t,
                                 const std::vector<int>& tokens, const std::vector<double>& weight);

/// The token that leaves first among those scored: with the lowest score, and the lowest position
/// among equals. Where single precision cannot tell scores apart it is the one that left after step
/// `t` in `other`, and `followed` counts.
int first_to_leave(const std::map<int, double>& scores, int t, const Evictions& other,
                   int& followed);

/// Attention of a query head at a step over some tokens, parallel to them, and the output.
struct HeadStep {
  std::vector<double> attention;
  std::vector<double> output;
};
using Attend = std::function<HeadStep(int head, int t, const std::vector<int>& tokens)>;

/// A cache that evicts the oldest candidate, or the one with the least accumulated attention.
struct Keeping {
  int budget = 1;
  int first = 0;   ///< number of protected first tokens
  int newest = 0;  ///< number of protected newest tokens
  bool by_attention = false;
  Mode mode = Mode::stream;
};

struct SteppedReplay {
  ReferenceRecord record;
  int followed = 0;
};

/// The replay step by step, straight from its definition, with `attend` for its attention.
SteppedReplay replay_steps(const ReferenceUnit& unit, const Keeping& keeping, const Attend& attend,
                           const Evictions& other);

}  // namespace kvsim::test_support
