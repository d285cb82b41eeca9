#pragma once

#include <cmath>

#include "sim/results/result.h"

namespace kvsim::cli {

/// One quantity: a column in CSV and JSON, a row of the aligned table.
struct Quantity {
  const char* name;
  Value value;
};

/// As an integer, if it fits in 64 bits.
inline Value whole(double value) {
  if (value < 0x1p63) return static_cast<std::int64_t>(std::llround(value));
  return value;
}

}  // namespace kvsim::cli
