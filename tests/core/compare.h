#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <variant>

#include "sim/core/replay.h"

namespace kvsim::core_test {

inline bool close(double a, double b, double relative, double absolute = 0) {
  return std::abs(a - b) <= relative * std::max(std::abs(a), std::abs(b)) + absolute;
}

/// The names of the measured columns in which two results differ: counts and other integers at all,
/// numbers by more than `relative`. Empty if there are none.
inline std::string differences(const Result& a, const Result& b, double relative) {
  std::string names;
  for (const Column& column : result_columns()) {
    const Value x = column.get(a);
    const Value y = column.get(b);
    if (std::holds_alternative<std::string>(x)) continue;
    const auto* number = std::get_if<double>(&x);
    // Sums of rounded numbers that cancel leave a remainder of this size.
    const bool same = number ? close(*number, std::get<double>(y), relative, 1e-12) : x == y;
    if (!same) names += std::string(column.name) + " ";
  }
  return names;
}

/// Whether two results of the same replay are equal to the last bit, measured columns and key.
inline bool identical(const Result& a, const Result& b) {
  return std::all_of(result_columns().begin(), result_columns().end(),
                     [&](const Column& column) { return column.get(a) == column.get(b); });
}

/// Whether two results are of the same replay, though not of the same sweep: sums that replays
/// share make the last digits of output errors depend on their company. Everything else is equal,
/// but for the order in which fp64 sums are taken.
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

}  // namespace kvsim::core_test
