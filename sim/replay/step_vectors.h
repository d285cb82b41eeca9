#pragma once

#include <span>
#include <vector>

#include "policies/interface/policy.h"
#include "traces/unit.h"

namespace kvsim {

/// Of the means that StepSource::attend() sets, the one that takes the attention of a KV head.
inline std::vector<float>& mean_of(std::span<std::vector<float>> means, std::size_t head) {
  return means.size() == 1 ? means.front() : means[head];
}

/// The number of query heads over which each mean is taken, of a layer of `num_units` KV heads like
/// `unit`.
inline double num_averaged(const Unit& unit, std::size_t num_units,
                           std::span<const std::vector<float>> means) {
  const std::size_t units = means.size() == 1 ? num_units : 1;
  return static_cast<double>(unit.group_size()) * static_cast<double>(units);
}

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
