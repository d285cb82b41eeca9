#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sim/core/block_matrix.h"
#include "sim/core/pivotal.h"
#include "traces/unit.h"

namespace kvsim {

using MatrixDouble = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// Full attention of one query head over a block of consecutive steps. Rows are steps, columns are
/// tokens 0 .. last step of the block; what is not visible has weight 0.
struct HeadAttention {
  BlockMatrix logit;               ///< l[t,j], after soft-capping
  BlockMatrix weight;              ///< exp(l[t,j] - max_j l[t,j])
  AlignedRows weight_by_token;     ///< its transpose, [tokens, kBlockSteps]; 0 beyond the last step
  std::vector<double> weight_sum;  ///< per step; a[t,j] = weight / weight_sum
  std::vector<double> weight_norm;  ///< per step: the square root of the sum of squared weights
  MatrixDouble output;              ///< o_t, [steps, value_dim]
  std::vector<double> output_norm;  ///< per step: |o_t|
  std::vector<int> num_pivotal;     ///< per step: tokens with a[t,j] > 1 / (t + 1)
  std::vector<std::vector<std::uint64_t>> pivotal;  ///< per step: a bit for each of these tokens
};

/// All that a block of steps gives that does not depend on a policy, computed once per unit and
/// shared by every replay of it.
struct AttentionBlock {
  int first_step = 0;
  int num_steps = 0;
  std::vector<HeadAttention> heads;   ///< one per query head of the unit
  std::vector<double> longest_value;  ///< per step t: max over j <= t of |v_j|
};

/// Whether a block comes with its outputs, or they follow from those of a cache that holds nearly
/// as much (RetainedOutputs).
enum class Outputs { now, can_wait };

/// The full attention of one unit, block by block. Memory is proportional to one block.
class AttentionPass {
 public:
  virtual ~AttentionPass() = default;

  /// Fills `block` with steps first_step .. first_step + num_steps - 1, at most kBlockSteps. Where
  /// outputs can wait, a pass may leave them out: 0 rows.
  virtual void compute(int first_step, int num_steps, Outputs outputs, AttentionBlock& block) = 0;
};

class DeviceReplays;    // sim/core/device_replays.h
class DeviceSummaries;  // sim/core/device_summaries.h

/// A device that computes full attention, and may replay by itself.
class Backend {
 public:
  virtual ~Backend() = default;

  /// "cpu" or "cuda", as rows of results name it.
  virtual std::string device() const = 0;

  /// `unit` has to outlive the pass. May be called by several threads at once.
  virtual std::unique_ptr<AttentionPass> attend(const Unit& unit) const = 0;

  /// Null if the CPU does all replays.
  virtual const DeviceReplays* replays() const { return nullptr; }

  /// Null if attention is summed up where it is handed over to.
  virtual const DeviceSummaries* summaries() const { return nullptr; }
};

std::unique_ptr<Backend> make_cpu_backend();

/// The first token that step `step` sees: 0, or later if the layer has a sliding window.
int first_visible(const Unit& unit, int step);

/// Per token: the length of the longest value up to it.
std::vector<double> longest_values(const Unit& unit);

/// Fills in what follows from weights and their sums: the transpose, norms, and the pivotal tokens.
void index_weights(int first_step, HeadAttention& head);

/// Fills in the norms of the outputs.
void measure_outputs(HeadAttention& head);

}  // namespace kvsim
