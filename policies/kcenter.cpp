// Greedy k-centre (SubGen: Zandieh et al., 2024, section 3.2, after Dyer and Frieze 1985 and
// Gonzalez 1985): keeps the most recent tokens and those whose keys represent the older keys. The
// greedy order starts at the first token and repeatedly adds the key that is farthest from all
// chosen keys. The last tokens in this order are evicted.

#include <algorithm>
#include <limits>
#include <vector>

#include "policies/interface/policy_info.h"
#include "policies/pair_distances.h"
#include "sim/base/interrupt.h"

namespace kvsim {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Distances of more tokens than this, 128 MiB, are computed anew at every step.
constexpr int kMostTokensWithDistances = 4096;

class KCenter final : public Policy {
 public:
  KCenter(const Params& params, const Context& context)
      : protected_(params.amount("recent", context.budget)),
        recent_(std::min(protected_, context.budget)),
        most_ordered_(context.budget - recent_ < kMostTokensWithDistances
                          ? std::min(context.budget, kMostTokensWithDistances - 1) + 1
                          : 0),
        distances_(static_cast<std::size_t>(most_ordered_)) {}

  Rules rules() const override {
    return {.protect_newest = protected_,
            .remembered = {most_ordered_, PairDistances::kBytesPerPair}};
  }

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
    double squared_distance;  // to the nearest key chosen before
  };

  static std::size_t slot_of(std::int32_t token, const Step& step) {
    const auto slot = std::lower_bound(step.tokens.begin(), step.tokens.end(), token);
    return static_cast<std::size_t>(slot - step.tokens.begin());
  }

  // Orders the tokens before slot `num_older`. The order of the last step stays valid up to the
  // first token that was evicted and up to the first place that a new token takes.
  void choose(const Step& step, std::size_t num_older) {
    distances_.begin_step(step.tokens, step.keys, num_older);
    const auto first_evicted =
        std::find_if(order_.begin(), order_.end(), [&](const Choice& choice) {
          return step.tokens[slot_of(choice.token, step)] != choice.token;
        });
    order_.erase(first_evicted, order_.end());
    std::size_t known = order_.size();
    for (const std::size_t slot : unordered(step, num_older)) {
      known = std::min(known, place_of(slot, step));
    }
    order_.resize(known);
    choose_among(unordered(step, num_older), step);
  }

  // The slots before `num_older` that are not in `order_`, ascending.
  std::vector<std::size_t> unordered(const Step& step, std::size_t num_older) const {
    std::vector<bool> in_order(num_older, false);
    for (const Choice& choice : order_) in_order[slot_of(choice.token, step)] = true;
    std::vector<std::size_t> unordered;
    for (std::size_t slot = 0; slot < num_older; ++slot) {
      if (!in_order[slot]) unordered.push_back(slot);
    }
    return unordered;
  }

  // The place in `order_` at which the greedy choice would take the token in `slot`. The tokens in
  // `order_` are earlier in the text or were chosen before it, so they win ties.
  std::size_t place_of(std::size_t slot, const Step& step) {
    double nearest = kInfinity;
    for (std::size_t place = 0; place < order_.size(); ++place) {
      if (nearest > order_[place].squared_distance) return place;
      nearest = std::min(nearest, distances_(slot, slot_of(order_[place].token, step)));
    }
    return order_.size();
  }

  // Continues the greedy choice after the tokens in `order_`.
  void choose_among(std::vector<std::size_t> slots, const Step& step) {
    std::vector<double> nearest(slots.size(),
                                kInfinity);  // to the nearest chosen key
    const auto approach = [&](std::size_t chosen) {
      for (std::size_t i = 0; i < slots.size(); ++i) {
        nearest[i] = std::min(nearest[i], distances_(chosen, slots[i]));
      }
    };
    for (const Choice& choice : order_) approach(slot_of(choice.token, step));
    while (!slots.empty()) {
      poll_interrupt();
      const auto farthest =
          std::max_element(nearest.begin(), nearest.end());  // the first of equals
      const auto next = slots.begin() + (farthest - nearest.begin());
      const std::size_t slot = *next;
      order_.push_back({step.tokens[slot], *farthest});
      nearest.erase(farthest);
      slots.erase(next);
      approach(slot);
    }
  }

  int protected_;     // as asked for
  int recent_;        // of those, what the budget holds
  int most_ordered_;  // tokens whose distances are kept: of a stream, but not of a long prompt
  PairDistances distances_;
  std::vector<Choice> order_;
};

}  // namespace

PolicyInfo kcenter_policy() {
  return {
      .name = "kcenter",
      .keeps = "the most recent tokens and those whose keys represent the older keys",
      .source = "SubGen section 3.2",
      .sees = "keys",
      .differences =
          "the paper compresses once. Then each older key is at most twice as far "
          "from a kept one as the best choice allows. In a stream, where tokens leave "
          "one by one, that does not hold",
      .params = {Param::amount("recent", "0.5", "newest tokens that always stay")},
      .needs_budget = true,
      .scoring_cost = [](const Params&, const UnitSizes& unit,
                         std::int64_t held) { return unit.attended(held) * (20 + held * 17 / 20); },
      .make = make_policy<KCenter>};
}

}  // namespace kvsim
