#pragma once

#include <cstdint>
#include <span>

#include "sim/core/attention.h"
#include "sim/core/metrics.h"
#include "sim/core/rescued_step.h"

namespace kvsim {

/// Differences of sums in double are exact to about this much, relative to the longest value.
inline constexpr double kDoubleRounding = 1e-12;

/// |o - o'| of query head `head` at one row of a block, in fp64: o' attends to `tokens` (ascending)
/// with the weights of the full attention, which sum up to `weight_sum`.
double output_difference(const Unit& unit, const AttentionBlock& block, int head, int row,
                         std::span<const std::int32_t> tokens, double weight_sum);

/// About how far rounding may put a sum of weighted values that is computed in fp32 at first and
/// goes over `share` of the attention, as a distance of outputs.
double rounding_of_sum(const AttentionBlock& block, int head, int row, double share);

/// The same from a step's own weights; `output` is o.
double output_difference(const Unit& unit, const Eigen::VectorXd& output, const RescuedStep& kept);

/// Completes a measurement by the error and its bound, which follow from the difference, the length
/// of the full cache's output and that of the longest value so far.
void set_error(double difference, double output_norm, double longest_value,
               Measurement& measurement);

/// The same for query head `head` at one row of a block.
void set_error(double difference, const AttentionBlock& block, int head, int row,
               Measurement& measurement);

}  // namespace kvsim
