#pragma once

#include <functional>

#include "sim/results/table_schema.h"
#include "sim/sweep/sweep_plan.h"
#include "sim/tiers/fetch.h"

namespace kvsim {

/// What `kvsim fetch` is asked for in addition to what every verb is.
struct FetchRequest {
  std::vector<SelectorSpec> selectors;
  std::vector<Amount> resident;  ///< shares are of the sequence in stream mode, else of the prompt
  std::vector<Replacement> replace;
  bool curve = false;    ///< every size, in place of `resident`; only `lru` and `belady`
  bool choices = false;  ///< in place of sizes: what is chosen, Fetches::choices, without rows
};

/// Selectors, sizes and replacements on the selected units of some traces.
struct FetchPlan {
  SweepPlan sweep;  ///< its policies and budgets are not used
  FetchRequest fetch;

  /// An estimate of the memory that running it takes, in bytes.
  std::size_t memory_bytes() const;
};

/// Opens the traces and lists the units. Throws UsageError for an empty list, for sizes together
/// with a curve or, unless choices are asked for, neither of them, for a replacement without a
/// curve, for a size that check_resident() refuses, and what plan_sweep() throws.
FetchPlan plan_fetches(SweepRequest request, FetchRequest fetch);

/// The tables of its rows: `fetch`, and `layer_error` if a layer has all its KV heads and a
/// recorded output projection.
std::vector<TableSchema> schemas_of(const FetchPlan& plan);

/// Called with what was found on one unit, parallel to the selectors, and its rows, parallel to the
/// schemas, by one thread at a time. The row of a layer comes with the last of its units.
using FetchesFinished = std::function<void(const PlannedUnit&, const std::vector<Fetches>&,
                                           const std::vector<TableRows>&)>;

/// Computes the rows, layers with an error of their own and other units in parallel. After a
/// failure or an interruption nothing further begins; what is finished has been reported. Then
/// throws the first failure, or Interrupted.
void run_fetches(const FetchPlan& plan, const Backend& backend,
                 const std::atomic<bool>& interrupted, const FetchesFinished& finished);

}  // namespace kvsim
