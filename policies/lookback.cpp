// Look-back: the online form of the oracle `lookahead`. It evicts the token whose absence changes
// the outputs of the last steps least, exactly evaluated: without token j a step's output moves by
// p[j] / (1 - p[j]) (o - v[j]), where p is its softmax over what remains of its tokens and o their
// output. With `window=1`, one query head and `target=now` this is CAOTE (Goel et al., "CAOTE: KV
// Cache Selection for LLMs via Attention Output Error-Based Token Eviction", arXiv 2504.14051).

#include <algorithm>
#include <deque>
#include <vector>

#include "policies/interface/policy_info.h"
#include "policies/parts/erase_slots.h"
#include "policies/parts/lane_sums.h"
#include "policies/parts/output_changes.h"
#include "policies/parts/row_products.h"
#include "policies/past_query.h"

namespace kvsim {
namespace {

/// A token that just left the cache.
struct Removed {
  std::vector<double> value;
  std::vector<double> products;  // of its value with that of each token
};

class LookBack final : public Policy {
 public:
  LookBack(const Params& params, const Context& context)
      : window_(params.integer("window")),
        given_(params.choice("target") == "given"),
        weights_(context) {}

  // The newest token has been seen by one step alone.
  Rules rules() const override {
    return {.protect_newest = 1,
            .sees_values = true,
            .sees_queries = true,
            .remembered = {window_, (kMostHeads * kListsOfPast + 1) * sizeof(double)}};
  }

  void update(const Step& step, std::span<double> scores) override {
    std::vector<PastQuery> arrived;
    // The oldest step counts no more, so that its memory is free.
    const std::size_t before = past_.size();
    if (std::ssize(past_) == window_) {
      arrived = std::move(past_.front());
      past_.pop_front();
    }
    follow_cache(step, before);
    past_.push_back(std::move(arrived));
    remember(step, past_.back());
    multiply_values(step.overflow > 0);
    if (step.overflow == 0) {
      for (std::vector<PastQuery>& heads : past_) {
        for (PastQuery& past : heads) follow_removals(past);
      }
      return;
    }
    std::fill(scores.begin(), scores.end(), 0);
    for (std::vector<PastQuery>& heads : past_) {
      for (PastQuery& past : heads) add_changes(past, scores);
    }
  }

 private:
  /// `past_steps` are as many as there were before the oldest was dropped.
  void follow_cache(const Step& step, std::size_t past_steps) {
    removed_.clear();
    std::vector<std::size_t> left;  // slots of the cache before, ascending
    for (std::size_t slot = 0; slot < tokens_.size(); ++slot) {
      if (tokens_[slot] != step.tokens[slot - left.size()]) left.push_back(slot);
    }
    if (!left.empty()) forget(left, past_steps);
    tokens_.assign(step.tokens.begin(), step.tokens.end());
    for (std::size_t slot = values_.size(); slot < step.tokens.size(); ++slot) {
      const std::span<const float> value = step.values[slot];
      values_.emplace_back(value.begin(), value.end());
      rows_.push_back(values_.back().data());
      squares_.push_back(sum_in_lanes(
          value.size(), [&](std::size_t d) { return double{value[d]} * double{value[d]}; }));
    }
  }

  void forget(const std::vector<std::size_t>& left, std::size_t past_steps) {
    // Where a whole prompt is cut, it takes less to compute the outputs of what stays.
    if (left.size() > past_steps) {
      forget_outputs();
    } else if (!past_.empty()) {  // with window=1 no output is left to follow
      for (const std::size_t slot : left) take_out(slot);
    }
    for (std::vector<PastQuery>& heads : past_) {
      for (PastQuery& past : heads) past.erase(left);
    }
    erase_slots(left, values_);
    erase_slots(left, rows_);
    erase_slots(left, squares_);
  }

  void forget_outputs() {
    for (std::vector<PastQuery>& heads : past_) {
      for (PastQuery& past : heads) past.output.clear();
    }
  }

  void take_out(std::size_t slot) {
    Removed& removed = removed_.emplace_back();
    removed.value.assign(values_[slot].begin(), values_[slot].end());
    for (std::vector<PastQuery>& heads : past_) {
      for (PastQuery& past : heads) past.take_out(slot, removed.value, given_);
    }
  }

  void remember(const Step& step, std::vector<PastQuery>& heads) const {
    weights_.set(step, heads);
    if (given_) set_given(heads);
  }

  /// The outputs of a step's queries, over all of its tokens.
  void set_given(std::vector<PastQuery>& heads) const {
    std::vector<const double*> weights;
    std::vector<double*> sums;
    const std::size_t dim = values_.front().size();
    for (PastQuery& past : heads) {
      past.given.resize(dim);
      weights.push_back(past.weights.data());
      sums.push_back(past.given.data());
    }
    weighted_row_sums(rows_, weights, sums, dim);
    for (PastQuery& past : heads) divide(past.given, past.sum);
  }

  /// The query's output over what is left of its tokens, whose weights have its `sum`, [value_dim].
  std::vector<double> output_of(const PastQuery& past) const {
    std::vector<double> output(values_.front().size());
    weighted_row_sums({rows_.data(), past.weights.size()}, past.weights.data(), output);
    divide(output, past.sum);
    return output;
  }

  static void divide(std::vector<double>& output, double sum) {
    for (double& x : output) x /= std::max(sum, kLeastWeight);
  }

  /// The products of all values with those that left and, where tokens have to leave, with the
  /// outputs that have none yet.
  void multiply_values(bool evicts) {
    RowProducts products;
    for (Removed& removed : removed_) {
      removed.products.resize(rows_.size());
      products.add(removed.value, removed.products);
    }
    for (std::vector<PastQuery>& heads : past_) {
      if (!evicts) break;
      if (&heads == &past_.back()) {
        measure(heads, products);
      } else if (std::ranges::any_of(heads, [](auto& past) { return past.output.empty(); })) {
        RowProducts of_heads;
        measure(heads, of_heads);
        // The heads of a step hold the same tokens.
        of_heads.compute({rows_.data(), heads.front().weights.size()});
      }
    }
    products.compute(rows_);
  }

  /// Those of a step's heads that are not: computes all but products, and says which are needed.
  void measure(std::vector<PastQuery>& heads, RowProducts& products) const {
    for (PastQuery& past : heads) {
      if (!past.output.empty()) continue;
      past.along_output.resize(past.weights.size());
      past.along_error.assign(past.weights.size(), 0);
      if (past.is_whole && given_) {
        past.output = past.given;
      } else {
        past.sum = past.total();
        past.output = output_of(past);
      }
      products.add(past.output, past.along_output);
      const bool has_error = given_ && !past.is_whole;
      past.set_error(has_error);
      if (has_error) products.add(past.error, past.along_error);
    }
  }

  void follow_removals(PastQuery& past) const {
    for (std::size_t i = 0; i < past.ratios.size(); ++i) {
      follow_removal({past.ratios[i], removed_[i].products.data()}, past.along_output,
                     given_ ? past.along_error.data() : nullptr);
    }
    past.ratios.clear();
  }

  /// Adds to each token's score by how much the squared error of the query's output o would change
  /// without its value v: with the error e that it has already, |e - r (v - o)|^2 - |e|^2.
  void add_changes(PastQuery& past, std::span<double> scores) const {
    // Most steps have evicted one token, which takes one pass over the lists.
    const bool follows = given_ && past.ratios.size() == 1;
    if (!follows) follow_removals(past);
    const double followed = follows ? past.ratios.front() : 0;
    past.ratios.clear();
    const std::span<const double> weights = past.weights;
    const auto add_several = [&](std::size_t first, std::size_t last) {
      add_output_changes(past.sum, past.of_output, weights.subspan(first, last - first),
                         squares_.data() + first, past.along_output.data() + first,
                         past.along_error.data() + first, scores.data() + first,
                         {followed, follows ? removed_.front().products.data() + first : nullptr});
    };
    const std::size_t slot = past.slot_of_most();
    add_several(0, slot);
    if (slot == weights.size()) return;
    // The output is next to the value of the token with most of the weight: products would cancel.
    scores[slot] += past.change_without(slot, values_[slot]);
    if (follows) {
      follow_removal({followed, removed_.front().products.data() + slot},
                     {&past.along_output[slot], 1}, &past.along_error[slot]);
    }
    add_several(slot + 1, weights.size());
  }

  static constexpr std::size_t kMostHeads = 8;    // query heads of a KV head, for the estimate
  static constexpr std::size_t kListsOfPast = 3;  // of a PastQuery, per token; one of a Removed

  int window_;
  bool given_;
  QueryWeights weights_;
  std::vector<std::int32_t> tokens_;         // of the cache
  std::vector<std::vector<float>> values_;   // of its tokens: those of an evicted one are needed
  std::vector<const float*> rows_;           // where these are
  std::vector<double> squares_;              // of the values
  std::vector<Removed> removed_;             // since the last step
  std::deque<std::vector<PastQuery>> past_;  // of the last steps, one per query head
};

}  // namespace

PolicyInfo lookback_policy() {
  return {
      .name = "lookback",
      .keeps = "the tokens without which the outputs of the last steps would change most",
      .source = "policies/new_policies.md; with window=1,target=now CAOTE (arXiv 2504.14051)",
      .sees = "queries, keys, values",
      .differences =
          "CAOTE also has forms that weigh by the scores of another policy. The work of a step is "
          "cache times value_dim, and window times cache, for each query head. It was found on a "
          "toy model; on SmolLM2-135M it loses more than h2o (policies/new_policies.md)",
      .params = {Param::integer("window", 16, 1, 100'000, "last steps whose outputs count"),
                 Param::choice(
                     "target", {"given", "now"},
                     "what outputs are compared with: those that the steps gave, or those "
                     "that the cache would give them now")},
      .scoring_cost =
          [](const Params& params, const UnitSizes& unit, std::int64_t held) {
            const std::int64_t window = params.integer("window");
            return unit.attended(held) * unit.group * (10 + 2 * window + unit.dims() / 4);
          },
      .make = make_policy<LookBack>};
}

}  // namespace kvsim
