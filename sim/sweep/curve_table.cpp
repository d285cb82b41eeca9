#include "sim/sweep/curve_table.h"

#include <algorithm>

#include "sim/results/version.h"

namespace kvsim {
namespace {

constexpr std::size_t kColumns = 28;

}  // namespace

std::vector<std::vector<Value>> curve_rows(const Curve& curve, const CurveLabels& labels) {
  std::vector<std::vector<Value>> rows;
  rows.reserve(curve.budgets.size());
  for (std::size_t i = 0; i < curve.budgets.size(); ++i) {
    const std::int64_t budget = curve.budgets[i];
    const double loss = curve.attention_loss[i];
    const std::int64_t misses = curve.token_misses[i];
    const auto accesses = static_cast<double>(curve.token_accesses);
    std::vector<Value>& row = rows.emplace_back();
    row.reserve(kColumns);
    row.insert(row.end(),
               {Value(labels.trace_id), labels.unit.sequence, std::int64_t{labels.unit.layer},
                std::int64_t{labels.unit.kv_head}, labels.policy, budget, labels.mode, labels.seed,
                labels.trace, curve.steps, 1 - loss, loss,
                accesses == 0 ? 0.0 : static_cast<double>(misses) / accesses, curve.token_accesses,
                misses, curve.evictions[i], curve.peak_tokens[i],
                curve.peak_tokens[i] * static_cast<std::int64_t>(labels.bytes_per_token)});
    const auto found = curve.output_error.find(curve.budgets[i]);
    if (found == curve.output_error.end()) {
      row.insert(row.end(), 6, std::monostate());
    } else {
      const OutputErrors& errors = found->second;
      row.insert(row.end(), {errors.mean, errors.p50, errors.p95, errors.max, errors.bound_mean,
                             errors.bound_violations});
    }
    row.insert(row.end(), {labels.device, version()});
    row.push_back(labels.label.empty() ? Value(std::monostate()) : Value(labels.label));
    row.emplace_back(labels.policy_code);
  }
  return rows;
}

}  // namespace kvsim
