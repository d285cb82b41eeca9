#pragma once

#include <span>
#include <vector>

#include "policies/interface/policy.h"
#include "traces/unit.h"

namespace kvsim {

/// The rows of `vectors`, [n, dim], that belong to `tokens`. Keeps references to both.
inline ResidentVectors resident_vectors(const Matrix& vectors,
                                        std::span<const std::int32_t> tokens) {
  return {vectors.data(), static_cast<std::size_t>(vectors.cols()), tokens};
}

/// Step::selected of the unit.
inline std::span<const std::int32_t> selected_at(const Unit& unit, int step) {
  return unit.selected ? unit.selected->at(step) : std::span<const std::int32_t>();
}

/// Sets Step::queries: the query of each query head of the unit at `step`.
inline void set_queries(const Unit& unit, int step, std::vector<std::span<const float>>& queries) {
  queries.clear();
  for (const Matrix& head : unit.query) {
    queries.emplace_back(head.row(step).data(), static_cast<std::size_t>(head.cols()));
  }
}

}  // namespace kvsim
