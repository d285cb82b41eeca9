#pragma once

#include "sim/results/fetch_schema.h"
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

}  // namespace kvsim
