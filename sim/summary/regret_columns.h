#pragma once

#include <string>
#include <vector>

#include "policies/registry/spec.h"
#include "sim/results/paired_bootstrap.h"
#include "sim/results/result.h"
#include "sim/summary/unit_values.h"

namespace kvsim {

/// The columns of a comparison that relate a policy's recall to an oracle's, each with its 95%
/// interval. There are none without an oracle in the sweep.
class RegretColumns {
 public:
  explicit RegretColumns(const std::vector<Spec>& policies);

  /// "regret": the oracle's recall - the policy's. "gap closed", if the sweep has `window` and
  /// `optimal`: (recall - window's) / (optimal's - window's), of the means.
  std::vector<std::string> columns() const;

  bool has_any() const { return !oracle_.empty(); }

  /// ", regret against ORACLE", or empty without an oracle.
  std::string note() const;

  /// Appends the columns of `policy`, NULL if it does not has_regret().
  void append_to(std::vector<Value>& row, const std::string& policy, const UnitValues& recalls,
                 const PairedBootstrap& bootstrap) const;

 private:
  std::string oracle_;       ///< `optimal` if the sweep has it, else its first oracle; empty: none
  std::string oracle_name_;  ///< in tables
  bool has_gap_ = false;
};

}  // namespace kvsim
