#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "sim/replay/planner.h"

namespace kvsim::oracle_test {

/// What an oracle plans from this attention alone: a plan per budget.
std::vector<Plan> plans(const std::string& spec, const FutureAttention& attention,
                        const std::vector<int>& budgets);

using Rows = std::vector<std::vector<float>>;

/// Rows of attention that sum to 1, some of it exactly 0 and some of it equal.
inline Rows random_rows(int tokens, std::uint64_t seed) {
  std::mt19937_64 bits(seed);
  Rows rows;
  for (int step = 0; step < tokens; ++step) {
    std::vector<float>& row = rows.emplace_back();
    float sum = 0;
    for (int token = 0; token <= step; ++token) {
      const auto draw = static_cast<float>(bits() % 8);
      row.push_back(draw * draw * draw);
      sum += row.back();
    }
    if (sum == 0) row.back() = sum = 1;
    for (float& share : row) share /= sum;
  }
  return rows;
}

/// Attention, or another loss, at the measured steps that a schedule loses.
inline double lost(const StepRows& attention, const Schedule& schedule) {
  double sum = 0;
  for (int step = attention.first_measured(); step < attention.num_tokens(); ++step) {
    for (int token = 0; token <= step; ++token) {
      if (schedule[static_cast<std::size_t>(token)] < step) {
        sum += double{attention.row(step)[static_cast<std::size_t>(token)]};
      }
    }
  }
  return sum;
}

/// The most tokens that a schedule keeps after `step`.
inline int kept_after(const Schedule& schedule, int step) {
  int kept = 0;
  for (int token = 0; token <= step; ++token) {
    kept += schedule[static_cast<std::size_t>(token)] > step;
  }
  return kept;
}

/// The least loss over all ways to evict, tried one by one. After step s at most `capacity(s)`
/// tokens stay, and the `recent` newest of them always.
double least_loss(const StepRows& attention, const std::function<int(int)>& capacity,
                  int recent = 0);

}  // namespace kvsim::oracle_test
