#pragma once

#include <optional>
#include <vector>

#include "policies/interface/policy_info.h"
#include "sim/replay/future.h"

namespace kvsim {

/// What a step loses by a missing token. These add up over tokens, as errors of the output do not.
enum class Cost {
  mass,   ///< a[t,j], the mean over the group's query heads
  value,  ///< a_h[t,j] |v_j - o_{t,h}|, the mean over the group
  /// a_h[t,j]^2 (g_{t,h} . (v_j - o_{t,h}))^2 / 2 with the recorded gradients g, summed over the
  /// group, the mean over samples: nats
  predicted
};

/// A loss to minimise: a cost, of all measured steps or of answer_steps() alone.
struct Loss {
  Cost cost = Cost::mass;
  bool answers_only = false;

  /// Whether it is attention lost, so that its minimum bounds the recall of every policy.
  bool bounds_recall() const { return cost == Cost::mass && !answers_only; }
};

/// The parameters `cost` and `weight` of an oracle, its Loss, and what that needs of a trace.
std::vector<Param> loss_params();
Loss loss_of(const Params& params);
TraceNeeds loss_needs(const Params& params);

/// The sum over the measured steps and all tokens: of attention, what a cache of all tokens
/// retains.
double sum_of_measured(const StepRows& rows);

/// What each step loses without each token. Takes 2 n (n + 1) bytes, except for the attention lost
/// by all steps, which is the future's own. Throws DataError without a step that counts.
class StepLosses {
 public:
  /// `future` has to outlive the object.
  StepLosses(const Future& future, const Loss& loss);
  StepLosses(const StepLosses&) = delete;
  StepLosses& operator=(const StepLosses&) = delete;

  const StepRows& rows() const { return own_ ? *own_ : *attention_; }

  /// Over how many steps a mean of losses is taken.
  int num_steps() const { return num_steps_; }

  /// That a schedule loses `loss` and no other less than `bound`, both summed over steps.
  /// `of_every_policy`: the bound holds for every schedule of the budget. Then it bounds recall, if
  /// the losses are attention.
  Proof proof(double loss, double bound, bool of_every_policy) const;

 private:
  Loss loss_;
  const StepRows* attention_ = nullptr;
  std::optional<StepRows> own_;
  int num_steps_;
};

}  // namespace kvsim
