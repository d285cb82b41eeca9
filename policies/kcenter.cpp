// Greedy k-centre (SubGen: Zandieh et al., 2024, section 3.2, after Dyer and Frieze 1985 and
// Gonzalez 1985): beside the most recent tokens, those whose keys represent the older keys. The
// order of choice starts at the first token and goes on with the key that is farthest from those
// chosen; what it would choose last leaves.

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <vector>

#include "policies/registry.h"

namespace kvsim {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

class KCenter final : public Policy {
 public:
  KCenter(const Params& params, const Context& context)
      : recent_(std::min(params.amount("recent", context.budget), context.budget)) {}

  Rules rules() const override { return {.protect_newest = recent_}; }

  void update(const Step& step, std::span<double> scores) override {
    if (step.overflow == 0) return;
    choose(step, step.tokens.size() - static_cast<std::size_t>(recent_));
    for (std::size_t i = 0; i < order_.size(); ++i) {
      scores[slot_of(order_[i].token, step)] = -static_cast<double>(i);
    }
  }

 private:
  struct Choice {
    std::int32_t token;
    double distance;  // to the nearest one chosen before, squared
  };

  static std::size_t slot_of(std::int32_t token, const Step& step) {
    const auto slot = std::lower_bound(step.tokens.begin(), step.tokens.end(), token);
    return static_cast<std::size_t>(slot - step.tokens.begin());
  }

  // Squared, in partial sums that the compiler can keep in one vector.
  static double distance(const Step& step, std::size_t a, std::size_t b) {
    const std::span<const float> x = step.keys[a];
    const std::span<const float> y = step.keys[b];
    std::array<float, 8> sums = {};
    std::size_t d = 0;
    for (; d + sums.size() <= x.size(); d += sums.size()) {
      for (std::size_t k = 0; k < sums.size(); ++k) {
        const float difference = x[d + k] - y[d + k];
        sums[k] += difference * difference;
      }
    }
    for (; d < x.size(); ++d) sums[0] += (x[d] - y[d]) * (x[d] - y[d]);
    return std::accumulate(sums.begin(), sums.end(), 0.0);
  }

  // Puts the tokens before slot `num_older` in order. Up to a token that has left, and up to where
  // a new one comes in, the order is what it was.
  void choose(const Step& step, std::size_t num_older) {
    const auto gone = std::find_if(order_.begin(), order_.end(), [&](const Choice& choice) {
      return step.tokens[slot_of(choice.token, step)] != choice.token;
    });
    order_.erase(gone, order_.end());
    std::size_t known = order_.size();
    for (const std::size_t slot : others(step, num_older)) {
      known = std::min(known, place_of(slot, step));
    }
    order_.resize(known);
    choose_among(others(step, num_older), step);
  }

  // The slots before `num_older` that are not in order, ascending.
  std::vector<std::size_t> others(const Step& step, std::size_t num_older) const {
    std::vector<bool> in_order(num_older, false);
    for (const Choice& choice : order_) in_order[slot_of(choice.token, step)] = true;
    std::vector<std::size_t> others;
    for (std::size_t slot = 0; slot < num_older; ++slot) {
      if (!in_order[slot]) others.push_back(slot);
    }
    return others;
  }

  // Where the choice would take a token among those that are in order. These are earlier in the
  // text, or were taken before it, and so come first among equals.
  std::size_t place_of(std::size_t slot, const Step& step) const {
    double nearest = kInfinity;
    for (std::size_t place = 0; place < order_.size(); ++place) {
      if (nearest > order_[place].distance) return place;
      nearest = std::min(nearest, distance(step, slot, slot_of(order_[place].token, step)));
    }
    return order_.size();
  }

  // Goes on with the choice after those that are in order.
  void choose_among(std::vector<std::size_t> slots, const Step& step) {
    std::vector<double> nearest(slots.size(), kInfinity);  // distance to those chosen
    const auto approach = [&](std::size_t chosen) {
      for (std::size_t i = 0; i < slots.size(); ++i) {
        nearest[i] = std::min(nearest[i], distance(step, slots[i], chosen));
      }
    };
    for (const Choice& choice : order_) approach(slot_of(choice.token, step));
    while (!slots.empty()) {
      const auto farthest = std::max_element(nearest.begin(), nearest.end());  // the first such
      const auto next = slots.begin() + (farthest - nearest.begin());
      const std::size_t slot = *next;
      order_.push_back({step.tokens[slot], *farthest});
      nearest.erase(farthest);
      slots.erase(next);
      approach(slot);
    }
  }

  int recent_;
  std::vector<Choice> order_;
};

}  // namespace

PolicyInfo kcenter_policy() {
  return {.name = "kcenter",
          .keeps = "the most recent tokens and those whose keys represent the older keys",
          .source = "SubGen section 3.2",
          .sees = "keys",
          .differences =
              "the paper compresses once. Then each older key is at most twice as far "
              "from a kept one as the best choice allows. In a stream, where tokens leave "
              "one by one, that does not hold",
          .params = {Param::amount("recent", "0.5", "newest tokens that always stay")},
          .make = make_policy<KCenter>};
}

}  // namespace kvsim
