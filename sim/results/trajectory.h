#pragma once

#include <cstdint>
#include <vector>

#include "traces/unit.h"

namespace kvsim {

/// The step-by-step record of one replay on one unit. Matrices are [query heads, measured steps].
struct Trajectory {
  std::vector<std::int32_t> evicted_after;  ///< per token: the step after which it left; n: never
  Matrix attention_recall;                  ///< empty without a reference
  Matrix output_error;                      ///< empty without a reference; NaN: not taken
  Matrix
      predicted_kl;  ///< nats of the step; empty without a reference or gradients; NaN: not taken
  std::vector<double> slot_price;  ///< Plan::slot_price of an oracle; may be empty

  /// On request, of a policy that selects: what each step attends to, one step after the other; of
  /// steps before the measured ones, which attend to all tokens, nothing. Step t has
  /// selected[selected_begin[t]] .. selected[selected_begin[t + 1] - 1].
  std::vector<std::int32_t> selected;
  std::vector<std::int64_t> selected_begin;
};

}  // namespace kvsim
