#include "sim/plugin/c_policy.h"

#include <fmt/format.h>

#include <cmath>

#include "sim/base/errors.h"

namespace kvsim {
namespace {

const float* rows_of(const ResidentVectors& vectors, std::size_t count, std::vector<float>& rows) {
  rows.clear();
  for (std::size_t slot = 0; slot < count; ++slot) {
    const std::span<const float> row = vectors[slot];
    rows.insert(rows.end(), row.begin(), row.end());
  }
  return rows.data();
}

const float* rows_of(std::span<const std::span<const float>> vectors, std::vector<float>& rows) {
  rows.clear();
  for (const std::span<const float> row : vectors) rows.insert(rows.end(), row.begin(), row.end());
  return rows.data();
}

// Without a branch per score, so that the loop is made of vector instructions.
bool has_nan(std::span<const double> scores) {
  bool found = false;
  for (const double score : scores) found |= std::isnan(score);
  return found;
}

}  // namespace

void CPolicy::update(const Step& step, std::span<double> scores) {
  // Only where nothing leaves and nothing is measured: the scores decide nothing.
  if (step.attention.empty()) return;
  if (state_ == nullptr && function_.make_state) state_ = function_.make_state();
  const auto size = [](std::size_t count) { return static_cast<std::int32_t>(count); };
  const Rules& rules = function_.rules;
  kvsim_step seen = {};
  seen.index = step.index;
  seen.num_tokens = size(step.tokens.size());
  seen.overflow = step.overflow;
  seen.tokens = step.tokens.data();
  seen.attention = step.attention.data();
  seen.head_dim = size(step.keys.dim());
  if (rules.sees_full_attention) seen.full_attention = step.full_attention.data();
  if (function_.sees_keys) seen.keys = rows_of(step.keys, step.tokens.size(), keys_);
  if (rules.sees_values) {
    seen.value_dim = size(step.values.dim());
    seen.values = rows_of(step.values, step.tokens.size(), values_);
  }
  if (rules.sees_queries) {
    seen.num_queries = size(step.queries.size());
    seen.queries = rows_of(step.queries, queries_);
  }
  if (!step.selected.empty()) seen.selected = step.selected.data();
  seen.num_selected = size(step.selected.size());
  if (const std::int32_t result = function_.update(&seen, scores.data(), state_.get());
      result != 0) {
    throw DataError(
        fmt::format("{}: update() returned {} at step {}", function_.owner, result, step.index));
  }
  if (has_nan(scores)) {
    throw DataError(fmt::format("{}: update() set a score to NaN at step {}; expected a number",
                                function_.owner, step.index));
  }
}

}  // namespace kvsim
