#pragma once

#include <cstdint>
#include <span>

#include "sim/attention/attention.h"
#include "sim/attention/rescaled_step.h"
#include "sim/kernels/error_kernels.h"
#include "sim/outputs/measurement.h"

namespace kvsim {

/// o - o' of query head `head` at row `row` of a block, in fp64. o' attends to `tokens`
/// (ascending); their weights in the full attention and the sink's sum to `weight_sum`.
Eigen::VectorXd output_difference(const Unit& unit, const AttentionBlock& block, int head, int row,
                                  std::span<const std::int32_t> tokens, double weight_sum);

/// See rounding_of_sum(). The block must have the norms of its outputs.
SumRounding sum_rounding(const AttentionBlock& block, int head);

/// o - o' for a rescaled step; `output` is o.
Eigen::VectorXd output_difference(const Unit& unit, const Eigen::VectorXd& output,
                                  const RescaledStep& kept);

/// Sets the errors and their bound for query head `head` at row `row` of a block; `difference` is
/// |o - o'|.
void set_error(double difference, const AttentionBlock& block, int head, int row,
               Measurement& measurement);

}  // namespace kvsim
