#pragma once

#include <Eigen/Core>
#include <memory>
#include <string>
#include <vector>

#include "traces/unit.h"

namespace kvsim {

using MatrixDouble = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// Full attention of one query head over a block of consecutive steps. Rows are steps, columns are
/// tokens 0 .. last step of the block; what is not visible has weight 0.
struct HeadAttention {
  Matrix logit;                    ///< l[t,j], after soft-capping
  Matrix weight;                   ///< exp(l[t,j] - max_j l[t,j])
  std::vector<double> weight_sum;  ///< per step; a[t,j] = weight / weight_sum
  MatrixDouble output;             ///< o_t, [steps, value_dim]
  std::vector<int> num_pivotal;    ///< per step: tokens with a[t,j] > 1 / (t + 1)
};

/// All that a block of steps gives that does not depend on a policy, computed once per unit and
/// shared by every replay of it.
struct AttentionBlock {
  int first_step = 0;
  int num_steps = 0;
  std::vector<HeadAttention> heads;   ///< one per query head of the unit
  std::vector<double> longest_value;  ///< per step t: max over j <= t of |v_j|
};

/// The full attention of one unit, block by block. Memory is proportional to one block.
class AttentionPass {
 public:
  virtual ~AttentionPass() = default;

  /// Fills `block` with steps first_step .. first_step + num_steps - 1.
  virtual void compute(int first_step, int num_steps, AttentionBlock& block) = 0;
};

/// A device that computes full attention.
class Backend {
 public:
  virtual ~Backend() = default;

  /// "cpu" or "cuda", as rows of results name it.
  virtual std::string device() const = 0;

  /// `unit` has to outlive the pass. May be called by several threads at once.
  virtual std::unique_ptr<AttentionPass> attend(const Unit& unit) const = 0;
};

std::unique_ptr<Backend> make_cpu_backend();

/// The first token that step `step` sees: 0, or later if the layer has a sliding window.
int first_visible(const Unit& unit, int step);

/// Per token: the length of the longest value up to it.
std::vector<double> longest_values(const Unit& unit);

/// Whether attention weight / weight_sum at this step exceeds 1 / (step + 1): the token is pivotal
/// (Scissorhands section 3.2 with alpha = 1/t).
inline bool is_pivotal(float weight, double weight_sum, int step) {
  return static_cast<double>(weight) * (step + 1) > weight_sum;
}

}  // namespace kvsim
