#pragma once

#include <span>
#include <vector>

#include "sim/protocol/eviction_steps.h"

namespace kvsim {

/// A number per step t and token j <= t of a unit of n tokens: the attention that t pays to j, or
/// what t loses without j. Takes 2 n (n + 1) bytes.
class StepRows : public EvictionSteps {
 public:
  /// All 0.
  explicit StepRows(const EvictionSteps& steps)
      : EvictionSteps(steps), values_(offset(steps.num_tokens())) {}

  /// The numbers of step t for j = 0 .. t.
  std::span<const float> row(int step) const {
    return {values_.data() + offset(step), static_cast<std::size_t>(step) + 1};
  }
  std::span<float> row(int step) {
    return {values_.data() + offset(step), static_cast<std::size_t>(step) + 1};
  }

  /// FutureSums::remaining if a device computed the numbers, else empty.
  std::span<const float> remaining() const { return remaining_; }

 protected:
  std::vector<float> values_;  // rows, concatenated
  std::vector<float> remaining_;

 private:
  static std::size_t offset(int step) {
    return static_cast<std::size_t>(step) * (static_cast<std::size_t>(step) + 1) / 2;
  }
};

}  // namespace kvsim
