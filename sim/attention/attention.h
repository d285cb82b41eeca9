#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "sim/attention/pivotal.h"
#include "sim/kernels/attention_kernels.h"
#include "sim/kernels/block_matrix.h"
#include "traces/unit.h"

namespace kvsim {

/// Full attention of one query head over a block of consecutive steps. Rows are steps, columns are
/// tokens 0 .. last step of the block. Tokens that a step does not see have weight 0.
struct HeadAttention {
  BlockMatrix logit;   ///< l[t,j], after soft-capping; minus infinity of what t does not select
  BlockMatrix weight;  ///< exp(l[t,j] - max_j l[t,j]), the maximum including the sink
  /// Transpose of weight, [tokens, kBlockSteps]; 0 beyond the last step.
  AlignedRows weight_by_token;
  std::vector<double> sink_weight;  ///< per step: that of the learned sink; 0 without one
  std::vector<double> weight_sum;   ///< per step, with the sink's; a[t,j] = weight / weight_sum
  std::vector<double> weight_norm;  ///< per step: the square root of the sum of squared weights
  MatrixDouble output;              ///< o_t, [steps, value_dim]
  std::vector<double> output_norm;  ///< per step: |o_t|
  std::vector<int> num_pivotal;     ///< per step: tokens with a[t,j] > 1 / (t + 1)
  std::vector<std::vector<std::uint64_t>> pivotal;  ///< per step: a bit per token, set if pivotal

  /// The sum of the weights of the tokens alone; above 0.
  double token_sum(int row) const {
    return std::max(weight_sum[row] - sink_weight[row], std::numeric_limits<double>::min());
  }
};

/// The full attention of a block of steps, computed once per unit and shared by all its replays.
struct AttentionBlock {
  int first_step = 0;
  int num_steps = 0;
  std::vector<HeadAttention> heads;   ///< one per query head of the unit
  std::vector<double> longest_value;  ///< per step t: max over j <= t of |v_j|
};

/// Whether a pass must compute the outputs of a block. If not, RetainedOutputs derives them.
enum class Outputs { required, optional };

/// The full attention of one unit, block by block. Memory is proportional to one block.
class AttentionPass {
 public:
  virtual ~AttentionPass() = default;

  /// Fills `block` with steps first_step .. first_step + num_steps - 1; num_steps <= kBlockSteps. A
  /// pass may leave optional outputs empty: 0 rows.
  virtual void compute(int first_step, int num_steps, Outputs outputs, AttentionBlock& block) = 0;
};

class DeviceReplays;    // sim/sweep/device_replays.h
class DeviceSummaries;  // sim/attention/device_summaries.h

/// A device that computes full attention and may also run replays.
class Backend {
 public:
  virtual ~Backend() = default;

  /// "cpu" or "cuda", as in the results.
  virtual std::string device() const = 0;

  /// `unit` has to outlive the pass. Thread-safe.
  virtual std::unique_ptr<AttentionPass> attend(const Unit& unit) const = 0;

  /// Null if the CPU does all replays.
  virtual const DeviceReplays* replays() const { return nullptr; }

  /// Null if the CPU computes all summaries.
  virtual const DeviceSummaries* summaries() const { return nullptr; }
};

std::unique_ptr<Backend> make_cpu_backend();

/// The first token visible to step `step`: 0, or later if the layer has a sliding window or attends
/// in chunks.
int first_visible(const Unit& unit, int step);

/// Whether a step sees a token: neither the future nor outside of the window and the chunk of the
/// layer and, where the model selects, selected.
bool is_visible(const Unit& unit, int step, int token);

/// How many tokens a step sees.
int num_visible(const Unit& unit, int step);

/// The tokens that a step sees, ascending.
std::vector<std::int32_t> visible_tokens(const Unit& unit, int step);

/// The weight of the learned sink of query head `head` among weights exp(logit - offset), the sink
/// being at most `offset`; 0 without one.
double sink_weight(const Unit& unit, int head, double offset);

/// Per token j: max over i <= j of |v_i|.
std::vector<double> longest_values(const Unit& unit);

/// Fills in logit, weight and their sums of query head `index` at the steps of `block`, whose
/// queries are the rows of `query` [num_steps, head_dim]. `keys` are those of the unit up to the
/// last step.
void weigh(const Unit& unit, const KeyPanels& keys, const float* query, int index,
           AttentionBlock& block);

/// Fills in what follows from weight and weight_sum: weight_by_token, weight_norm and the pivotal
/// tokens.
void summarise_weights(int first_step, HeadAttention& head);

/// Fills in output_norm.
void set_output_norms(HeadAttention& head);

}  // namespace kvsim
