#pragma once

#include "sim/curve/curve.h"
#include "sim/results/curve_schema.h"
#include "sim/results/table_schema.h"

namespace kvsim {

/// The columns of a curve's rows that do not come from the Curve.
struct CurveLabels {
  std::string trace_id;
  UnitName unit;
  std::string policy;
  std::string mode;
  std::int64_t seed = 0;
  std::size_t bytes_per_token = 0;  ///< K and V at the trace's element size
  std::string trace;
  std::string device;
  std::string label;  ///< the user's name of the policy; may be empty
  std::string policy_code;
};

/// One row per budget, values parallel to the columns of curve_schema().
std::vector<std::vector<Value>> curve_rows(const Curve& curve, const CurveLabels& labels);

}  // namespace kvsim
