#pragma once

#include <vector>

#include "oracle/lookahead/eviction_cost.h"
#include "sim/replay/planner.h"

namespace kvsim {

/// A cache of one unit, valued by the outputs that it gives at the next `window` steps.
class LookaheadCache {
 public:
  /// `evictions` as from EvictionSteps::num_evictions(). `unit` has to outlive the object.
  LookaheadCache(const Unit& unit, const std::vector<int>& evictions, int window);
  LookaheadCache(const LookaheadCache& other);

  const HeldTokens& held() const { return held_; }

  /// How many steps its cost has to hold.
  std::size_t num_steps() const { return num_steps_; }

  /// Before anything else.
  void set_cost(std::unique_ptr<EvictionCost> cost) { cost_ = std::move(cost); }

  /// The first step that evicts; n: none.
  int first_eviction() const { return first_eviction_; }

  /// Takes in the next block of full attention, which starts at a multiple of kBlockSteps. The
  /// first must be that of the step after the first eviction, if there is one.
  void receive(const AttentionBlock& block);

  /// Before evictions after `step`. Blocks up to `step` + window have been received.
  void arrive(int step);

  /// Per slot, by how much the loss of the window after `step` grows without its token.
  const std::vector<double>& changes(int step);

  /// The loss of the window after `step`.
  double loss(int step) const { return cost_->loss(step + 1, last_of_window(step)); }

  /// The loss of `step`, after which it has not evicted yet.
  double loss_at(int step) const { return step <= first_eviction_ ? 0 : cost_->loss(step, step); }

  void evict(std::size_t slot, int step);

  const Schedule& schedule() const { return schedule_; }

 private:
  int last_of_window(int step) const {
    return std::min(step + window_, static_cast<int>(schedule_.size()) - 1);
  }

  int window_;
  int first_eviction_;
  std::size_t num_steps_;
  int received_ = 0;  // steps
  int entered_ = 0;   // tokens that have had a slot
  HeldTokens held_;
  std::unique_ptr<EvictionCost> cost_;
  std::vector<double> change_;  // per slot
  Schedule schedule_;
};

}  // namespace kvsim
