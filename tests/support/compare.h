#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <variant>

#include "sim/replay/replay.h"

namespace kvsim::test_support {

inline bool close(double a, double b, double relative, double absolute = 0) {
  return std::abs(a - b) <= relative * std::max(std::abs(a), std::abs(b)) + absolute;
}

/// The names of the measured columns in which two results differ: integers by any amount, other
/// numbers by more than `relative` and `absolute`. Empty if there are none. Leaves out `ties`,
/// which the last bit of a score decides. By default `absolute` is the rounding that remains where
/// a sum cancels.
inline std::string differences(const Result& a, const Result& b, double relative,
                               double absolute = 1e-12) {
  std::string names;
  for (const Column& column : result_columns()) {
    const Value x = column.get(a);
    const Value y = column.get(b);
    if (std::holds_alternative<std::string>(x) || std::string(column.name) == "ties") continue;
    const auto* number = std::get_if<double>(&x);
    const bool same = number ? close(*number, std::get<double>(y), relative, absolute) : x == y;
    if (!same) names += std::string(column.name) + " ";
  }
  return names;
}

/// Whether the key and the measured columns of two results are equal to the last bit.
inline bool identical(const Result& a, const Result& b) {
  return std::all_of(result_columns().begin(), result_columns().end(),
                     [&](const Column& column) { return column.get(a) == column.get(b); });
}

/// Whether two results are of the same replay, perhaps from different sweeps. Replays of one unit
/// share sums, so the last digits of output errors depend on the other replays; fp64 sums may be
/// taken in another order; all else is equal.
inline bool agree(const Result& a, const Result& b) {
  return std::all_of(result_columns().begin(), result_columns().end(), [&](const Column& column) {
    const Value x = column.get(a);
    const Value y = column.get(b);
    if (!std::holds_alternative<double>(x) || !std::holds_alternative<double>(y)) return x == y;
    const bool is_error = std::string(column.name).starts_with("output_error");
    const double relative = is_error || std::string(column.name) == "bound_mean" ? 2e-5 : 1e-9;
    return close(std::get<double>(x), std::get<double>(y), relative, 1e-12);
  });
}

}  // namespace kvsim::test_support
