#include "sim/outputs/output_difference.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "sim/kernels/value_kernels.h"

namespace kvsim {
namespace {

std::vector<std::int32_t> tokens_between(std::int32_t begin, std::int32_t end,
                                         std::span<const std::int32_t> without) {
  std::vector<std::int32_t> tokens;
  for (const std::int32_t token : without) {
    for (; begin < token; ++begin) tokens.push_back(begin);
    begin = std::max(begin, token + 1);
  }
  for (; begin < end; ++begin) tokens.push_back(begin);
  return tokens;
}

// Sum of weighted values of `tokens`. Skips the smallest weights, which together make up less than
// 1e-8 of `weight_sum`.
Eigen::VectorXd weighted_values(const Unit& unit, const HeadAttention& full, int row,
                                std::span<const std::int32_t> tokens, double weight_sum) {
  const double cutoff = 1e-8 * weight_sum / static_cast<double>(tokens.size());
  std::vector<std::int32_t> summed;
  std::vector<float> weight;
  for (const std::int32_t token : tokens) {
    if (full.weight(row, token) < cutoff) continue;
    summed.push_back(token);
    weight.push_back(full.weight(row, token));
  }
  Eigen::VectorXd sum = Eigen::VectorXd::Zero(unit.value.cols());
  add_values(unit.value, summed, weight, sum.data());
  return sum;
}

}  // namespace

// With N, W the sums of weighted values and of weights over the kept and the missing tokens,
// o' = N_kept / W_kept and o - o' = (N_missing - W_missing o) / W_kept. The sum over the part with
// less weight has the smaller rounding error. A sink has its weight in W_kept and nothing in
// N_kept.
Eigen::VectorXd output_difference(const Unit& unit, const AttentionBlock& block, int head, int row,
                                  std::span<const std::int32_t> tokens, double weight_sum) {
  const HeadAttention& full = block.heads[head];
  const auto output = full.output.row(row).transpose();
  const double kept_sum = weight_sum - full.sink_weight[row];
  if (2 * kept_sum < full.token_sum(row)) {
    const Eigen::VectorXd sum = weighted_values(unit, full, row, tokens, kept_sum);
    return output - sum / weight_sum;
  }
  const int step = block.first_step + row;
  const auto missing = tokens_between(first_visible(unit, step), step + 1, tokens);
  double missing_sum = 0;
  for (const std::int32_t token : missing) missing_sum += full.weight(row, token);
  const Eigen::VectorXd sum = weighted_values(unit, full, row, missing, missing_sum);
  return (sum - missing_sum * output) / weight_sum;
}

SumRounding sum_rounding(const AttentionBlock& block, int head) {
  const HeadAttention& full = block.heads[head];
  SumRounding rounding;
  rounding.total.fill(1);
  for (int row = 0; row < block.num_steps; ++row) {
    const double longest_value = block.longest_value[row];
    rounding.total[row] = full.weight_sum[row];
    rounding.sink[row] = full.sink_weight[row];
    rounding.tokens[row] = full.token_sum(row);
    rounding.output_norm[row] = full.output_norm[row];
    rounding.attention_norm[row] = longest_value * (full.token_sum(row) / full.weight_sum[row]);
    rounding.random_norm[row] = longest_value * (full.weight_norm[row] / full.weight_sum[row]);
  }
  return rounding;
}

Eigen::VectorXd output_difference(const Unit& unit, const Eigen::VectorXd& output,
                                  const RescaledStep& kept) {
  Eigen::VectorXd sum = Eigen::VectorXd::Zero(unit.value.cols());
  add_values(unit.value, kept.tokens, kept.weight, sum.data());
  return output - sum / kept.weight_sum;
}

void set_error(double difference, const AttentionBlock& block, int head, int row,
               Measurement& measurement) {
  set_error(difference, block.heads[head].output_norm[row], block.longest_value[row], measurement);
}

}  // namespace kvsim
