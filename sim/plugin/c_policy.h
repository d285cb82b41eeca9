#pragma once

#include <kvsim/plugin.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "policies/interface/policy.h"

namespace kvsim {

/// A policy written as a function of C: by a plug-in, or by numba or ctypes.
struct CFunction {
  std::string owner;  ///< whose it is, for messages: "policy mine"
  Rules rules = {};
  bool sees_keys = false;  ///< fill kvsim_step::keys
  kvsim_update update = nullptr;
  /// Makes the state of a replay, with what destroys it, before its first step. Null: no state.
  std::function<std::shared_ptr<void>()> make_state = {};
};

/// Calls a function of C at every step. It gets scores and attention in place, and copies of the
/// keys, values and queries that it asks for, so that it cannot reach those of later tokens.
class CPolicy final : public Policy {
 public:
  explicit CPolicy(CFunction function) : function_(std::move(function)) {}

  Rules rules() const override { return function_.rules; }

  /// Throws DataError, which names the policy and the step, if the function returns another number
  /// than 0, or if it sets a score to NaN.
  void update(const Step& step, std::span<double> scores) override;

 private:
  CFunction function_;
  std::shared_ptr<void> state_;
  std::vector<float> keys_;     // [tokens, head_dim], of the step
  std::vector<float> values_;   // [tokens, value_dim]
  std::vector<float> queries_;  // [queries, head_dim]
};

}  // namespace kvsim
