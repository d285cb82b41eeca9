#pragma once

#include <map>
#include <string>
#include <vector>

#include "policies/spec.h"
#include "sim/core/result.h"

namespace kvsim::cli {

/// Where policies stand between the local window and the optimum, as further columns of a
/// comparison. There are none without an oracle in the sweep.
class Ladder {
 public:
  explicit Ladder(const std::vector<Spec>& policies);

  /// "regret": how much less than the oracle a policy retains; "gap closed": which share of the way
  /// from `window` to `optimal` it has come, if both are there.
  std::vector<std::string> columns() const;

  /// ", regret against ORACLE", or nothing.
  std::string note() const;

  /// `recall` holds the mean recall of every policy at the row's budget.
  void append_to(std::vector<Value>& row, const std::string& policy,
                 const std::map<std::string, double>& recall) const;

 private:
  std::string oracle_;  ///< `optimal` if it is there, else the first; empty: none
  bool has_gap_ = false;
};

}  // namespace kvsim::cli
