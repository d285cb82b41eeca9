#pragma once

#include <cuda_runtime.h>

namespace kvsim::gpu {

/// Consecutive steps of one query head, in device memory. Matrices are [num_steps, width], rows
/// contiguous, width = first_step + num_steps.
struct AttentionRows {
  int first_step = 0;
  int num_steps = 0;
  int sliding_window = 0;  ///< token j is visible at step t while t - window < j <= t
  float softcap = 0;       ///< 0: none

  float* logit = nullptr;         ///< in: scale * <query, key>; out: after soft-capping
  float* weight = nullptr;        ///< out: exp(logit - largest visible logit); 0 if not visible
  double* wide_weight = nullptr;  ///< out: the same numbers, for sums in double
  double* weight_sum = nullptr;   ///< out, per step
  int* num_pivotal = nullptr;     ///< out, per step
};

/// Turns logits into attention weights, on `stream`.
void weigh_rows(const AttentionRows& rows, cudaStream_t stream);

/// Whether this build has code for the current device.
cudaError_t weigh_rows_status();

}  // namespace kvsim::gpu
