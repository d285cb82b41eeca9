#pragma once

#include "sim/results/fetch_schema.h"
#include "sim/results/layer_error_table.h"
#include "sim/results/table_schema.h"
#include "sim/tiers/fetch.h"

namespace kvsim {

/// The columns of rows that do not come from Fetches.
struct FetchLabels {
  std::string trace_id;
  UnitName unit;
  std::string select;
  std::string mode;
  std::int64_t seed = 0;
  std::string trace;
  std::string device;
  std::string policy_code;
};

/// A digest of what decides a selector's numbers in addition to the columns of their key, 16
/// hexadecimal digits: its own code, if the program does not define it, and the version of the
/// engine's numbers.
std::string selector_code(const SelectorSpec& selector);

/// A row per size and replacement, values parallel to the columns of fetch_schema().
std::vector<std::vector<Value>> fetch_rows(const Fetches& fetches, const FetchLabels& labels);

/// The row of the unit's layer in the table `layer_error`, values parallel to the columns of
/// layer_error_schema(): `policy` is the selector, `budget` the most older tokens that a step
/// attends to, those of the whole text if their number is not fixed.
std::vector<Value> selected_layer_row(const ProjectedError& error, const SelectorSpec& selector,
                                      const FetchLabels& labels, std::int64_t steps, int num_tokens,
                                      int num_layers);

}  // namespace kvsim
