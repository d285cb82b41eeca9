#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include "policies/interface/policy_info.h"

namespace kvsim {

/// The sum of the attention that each token received since it arrived, by text position.
class AccumulatedAttention {
 public:
  /// `tokens` ascend; `attention` is parallel to them.
  void add(std::span<const std::int32_t> tokens, std::span<const float> attention) {
    sums_.resize(std::max(sums_.size(), static_cast<std::size_t>(tokens.back()) + 1), 0);
    for (std::size_t i = 0; i < tokens.size(); ++i) sums_[index(tokens[i])] += attention[i];
  }

  double of(std::int32_t token) const { return sums_[index(token)]; }

  /// The indices into `tokens` of the `count` tokens with the largest sums, in no particular order.
  /// Among equal sums the later tokens win.
  std::vector<std::size_t> heaviest(std::span<const std::int32_t> tokens, std::size_t count) const {
    std::vector<std::size_t> slots(tokens.size());
    std::iota(slots.begin(), slots.end(), std::size_t{0});
    if (count >= slots.size()) return slots;
    const auto end = slots.begin() + static_cast<std::ptrdiff_t>(count);
    std::nth_element(slots.begin(), end, slots.end(), [&](std::size_t a, std::size_t b) {
      return of(tokens[a]) != of(tokens[b]) ? of(tokens[a]) > of(tokens[b]) : a > b;
    });
    slots.erase(end, slots.end());
    return slots;
  }

 private:
  static std::size_t index(std::int32_t token) { return static_cast<std::size_t>(token); }

  std::vector<double> sums_;
};

/// The share of the budget that a policy leaves to heavy hitters, the tokens with the most
/// accumulated attention (H2O section 5.1, Table 2).
class HeavyHitterShare {
 public:
  HeavyHitterShare(const Params& params, const Context& context)
      : count_(static_cast<std::size_t>(std::floor(params.real("h2") * context.budget + 0.5))) {}

  static Param param() {
    return Param::real("h2", 0, 0, 1,
                       "share of the budget for heavy hitters; 0.5 is the paper's combination");
  }

  /// PolicyInfo::nests of a policy that otherwise scores by position: a share of the budget is a
  /// different number of tokens at each budget.
  static bool nests(const Params& params) { return params.real("h2") == 0; }

  bool is_enabled() const { return count_ > 0; }

  void add(std::span<const std::int32_t> tokens, std::span<const float> attention) {
    if (count_ > 0) accumulated_.add(tokens, attention);
  }

  /// Gives the heavy hitters among `tokens` the score infinity. `scores` is parallel to `tokens`
  /// and may be longer.
  void prefer(std::span<const std::int32_t> tokens, std::span<double> scores) const {
    if (count_ == 0) return;
    for (const std::size_t slot : accumulated_.heaviest(tokens, count_)) {
      scores[slot] = std::numeric_limits<double>::infinity();
    }
  }

 private:
  std::size_t count_;
  AccumulatedAttention accumulated_;
};

}  // namespace kvsim
