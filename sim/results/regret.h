#pragma once

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "policies/registry/spec.h"
#include "sim/results/result.h"

namespace kvsim {

/// A row's attention_recall exceeds an upper bound for all policies: one of the two is wrong.
class BoundExceeded : public std::runtime_error {
 public:
  BoundExceeded(const std::string& message, Result row, Result bound)
      : std::runtime_error(message), row_(std::move(row)), bound_(std::move(bound)) {}

  const Result& row() const { return row_; }
  /// The row that proves the bound.
  const Result& bound() const { return bound_; }

 private:
  Result row_;
  Result bound_;
};

/// Checks the attention_recall of the rows of one unit, mode and seed against those rows among them
/// that bound every policy at the same budget and allocation. Policies that do not keep to the
/// budget are not checked. Throws BoundExceeded.
void check_bounds(const std::vector<Result>& rows);

/// Whether the view `regret` has rows of the policy: all but oracles that minimise another cost
/// than the attention lost, or that of some steps only.
bool has_regret(const Spec& policy);

/// The columns of the view `regret`.
TableSchema regret_schema();

/// The SQL of the view `regret`: for every row and every oracle that was replayed at the same unit,
/// budget, allocation, mode and seed, `regret` = the oracle's attention_recall - the row's, and
/// `gap_closed` = (the row's - `window`'s) / (`optimal`'s - `window`'s), NULL where one of these is
/// missing or they are equal. Only what has_regret() takes part.
std::string regret_view();

}  // namespace kvsim
