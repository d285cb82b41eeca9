#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace kvsim {

/// The tokens that a model itself selected at each step of a layer: the step sees these alone.
class SelectedTokens {
 public:
  /// The next step selects these tokens: ascending, none of them later than the step.
  void add(std::span<const std::int32_t> tokens);

  int num_steps() const { return static_cast<int>(ends_.size()); }

  /// The tokens of a step, ascending.
  std::span<const std::int32_t> at(int step) const {
    const std::size_t begin = step == 0 ? 0 : ends_[step - 1];
    return std::span(tokens_).subspan(begin, ends_[step] - begin);
  }

  bool contains(int step, std::int32_t token) const;

  /// The most that a step selects.
  int most() const;

 private:
  std::vector<std::int32_t> tokens_;  // of all steps, one after the other
  std::vector<std::size_t> ends_;     // per step
};

}  // namespace kvsim
