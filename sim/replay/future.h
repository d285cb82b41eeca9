#pragma once

#include <atomic>
#include <optional>
#include <utility>

#include "sim/attention/future_attention.h"
#include "sim/replay/replay.h"

namespace kvsim {

/// What an oracle may see of one unit: all that is recorded of it, and the steps at which its cache
/// evicts. For one thread.
class Future : public EvictionSteps {
 public:
  /// `unit` and `backend` have to outlive the object. `interrupted` and
  /// `planning_threads` as in ReplayOptions.
  Future(const Unit& unit, const EvictionSteps& steps, const Backend& backend,
         const std::atomic<bool>* interrupted = nullptr, int planning_threads = 1)
      : EvictionSteps(steps),
        unit_(&unit),
        backend_(&backend),
        interrupted_(interrupted),
        planning_threads_(planning_threads) {}

  /// The same with given attention.
  Future(const Unit& unit, FutureAttention attention, const Backend& backend)
      : Future(unit, static_cast<const EvictionSteps&>(attention), backend) {
    attention_ = std::move(attention);
  }

  const Unit& unit() const { return *unit_; }

  /// Computes full attention, see for_each_block().
  const Backend& backend() const { return *backend_; }

  /// Computed on the first call and shared by all oracles of the unit.
  const FutureAttention& attention() const {
    if (!attention_) attention_.emplace(*unit_, *this, *backend_);
    return *attention_;
  }

  /// Lets go of the attention, whose memory is quadratic in the text.
  void forget_attention() { attention_.reset(); }

  /// How many threads may plan budgets side by side, see ReplayOptions.
  int planning_threads() const { return planning_threads_; }

  /// The flag that ends the run, or null.
  const std::atomic<bool>* interrupted() const { return interrupted_; }

  /// Throws Interrupted if the user ended the run. A planner that takes long calls it now and then.
  void check_interrupted() const { kvsim::check_interrupted(interrupted_); }

 private:
  const Unit* unit_;
  const Backend* backend_;
  const std::atomic<bool>* interrupted_;
  int planning_threads_;
  mutable std::optional<FutureAttention> attention_;
};

}  // namespace kvsim
