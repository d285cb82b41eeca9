// Greedy k-centre (SubGen: Zandieh et al., 2024, section 3.2, after Dyer and Frieze 1985 and
// Gonzalez 1985): keeps the most recent tokens and those whose keys represent the older keys. The
// greedy order starts at the first token and repeatedly adds the key that is farthest from all
// chosen keys. The last tokens in this order are evicted.

#include <algorithm>
#include <limits>
#include <vector>

#include "policies/farthest_keys.h"
#include "policies/interface/policy_info.h"
#include "policies/pair_distances.h"

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
      scores[distances_.slot_of(order_[i].token)] = -static_cast<double>(i);
    }
  }

 private:
  using Choice = FarthestKeys::Choice;

  // Orders the tokens before slot `num_older`. The order of the last step stays valid up to the
  // first token that was evicted, and new tokens find their places in it.
  void choose(const Step& step, std::size_t num_older) {
    const std::vector<std::int32_t> arrived =
        distances_.begin_step(step.tokens, step.keys, num_older);
    const auto first_evicted =
        std::find_if(order_.begin(), order_.end(),
                     [&](const Choice& choice) { return !distances_.has(choice.token); });
    order_.erase(first_evicted, order_.end());
    for (const std::int32_t token : arrived) insert(token);
    farthest_.complete(distances_, order_);
  }

  // Inserts a token at the place where the greedy choice would take it. The tokens in `order_` are
  // earlier in the text, so they win ties. What follows stays as it is up to the first token that
  // the new one is nearer to than all before it: that one would be chosen later.
  void insert(std::int32_t token) {
    const std::size_t row = distances_.row_of(token);
    const auto to = [&](const Choice& choice) {
      return distances_.of(row, distances_.row_of(choice.token));
    };
    double nearest = kInfinity;
    auto place = order_.begin();
    for (; place != order_.end() && nearest <= place->squared_distance; ++place) {
      nearest = std::min(nearest, to(*place));
    }
    if (place == order_.end()) return;
    order_.erase(std::find_if(place, order_.end(),
                              [&](const Choice& next) { return to(next) < next.squared_distance; }),
                 order_.end());
    order_.insert(place, {token, nearest});
  }

  int protected_;     // as asked for
  int recent_;        // of those, what the budget holds
  int most_ordered_;  // tokens whose distances are kept: of a stream, but not of a long prompt
  PairDistances distances_;
  FarthestKeys farthest_;
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
          .needs_budget = true,
          .scoring_cost = [](const Params&, const UnitSizes& unit,
                             std::int64_t held) { return unit.attended(held) * (20 + held / 25); },
          .make = make_policy<KCenter>};
}

}  // namespace kvsim
