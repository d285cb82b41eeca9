// OBCache (Gu, Liang, Zhao and Diao, "OBCache: Optimal Brain KV Cache Pruning for Efficient
// Long-Context LLM Inference", arXiv 2510.07651): a token counts by how far, to first order,
// outputs move without it, squared. With a the share of attention that a query gives the token, l
// its logit, v its value and o the query's output, they move by
//   a v                without its value,       score=v:  a^2 |v|^2,
//   a l (v - o)        with its logit at 0,     score=k:  a^2 l^2 |v - o|^2,
//   a (v + l (v - o))  without either,          score=vk: the sum of both and 2 a^2 l <v, v - o>.
// The scores replace the attention that H2O, TOVA and SnapKV add up over their queries.

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "policies/interface/policy_info.h"
#include "policies/parts/lane_sums.h"
#include "policies/parts/pooling.h"
#include "policies/parts/row_products.h"

namespace kvsim {
namespace {

/// What is left out of a token: its value, its logit, or both.
struct LeftOut {
  bool value;
  bool logit;
};

/// The changes of outputs whose squares add up to a score; none: its L1 form.
std::vector<LeftOut> left_out(const std::string& score) {
  if (score == "vk") return {{true, true}};
  if (score == "v") return {{true, false}};
  if (score == "k") return {{false, true}};
  if (score == "v-and-k") return {{true, false}, {false, true}};
  return {};
}

class OptimalBrainCache final : public Policy {
 public:
  OptimalBrainCache(const Params& params, const Context& context)
      : left_out_(left_out(params.choice("score"))),
        recent_(params.amount("recent", context.budget)),
        newest_alone_(params.choice("queries") == "newest"),
        waits_(params.choice("queries") == "recent"),
        pools_(params.choice("pool") != "none"),
        max_(params.choice("pool") == "max"),
        scale_(context.scale),
        softcap_(context.logit_softcap),
        window_(context.sliding_window),
        chunk_(context.attention_chunk),
        sinks_(context.sink_logit) {}

  Rules rules() const override {
    return {.protect_newest = recent_, .sees_values = true, .sees_queries = true};
  }

  void update(const Step& step, std::span<double> scores) override {
    sums_.resize(static_cast<std::size_t>(step.index) + 1, 0);
    if (left_out_.empty()) lengths_.push_back(l1_norm(step.values[step.tokens.size() - 1]));
    if (newest_alone_ && step.overflow == 0) return;
    if (newest_alone_) std::fill(sums_.begin(), sums_.end(), 0);
    if (waits_) {
      remember(step);
    } else {
      count(queries_of(step), step);
    }
    if (step.overflow == 0) return;
    // Nothing has left before the first eviction: these queries still find all that they saw.
    for (const PastStep& past : past_) count(past, step);
    past_.clear();
    waits_ = false;
    set_scores(step.tokens, scores);
  }

 private:
  /// The queries of a step, and what the model selected for them.
  struct PastStep {
    int index = 0;
    std::vector<std::vector<float>> queries;  // of each query head, [head_dim]
    std::vector<std::int32_t> selected;
  };

  static PastStep queries_of(const Step& step) {
    PastStep past{step.index, {}, {step.selected.begin(), step.selected.end()}};
    for (const auto& query : step.queries) past.queries.emplace_back(query.begin(), query.end());
    return past;
  }

  /// Of the steps before the first eviction the last `recent_` count, at least the one that evicts.
  void remember(const Step& step) {
    past_.push_back(queries_of(step));
    if (std::ssize(past_) > std::max(1, recent_)) past_.pop_front();
  }

  /// Slots of the cache from `first` on.
  struct Slots {
    std::size_t first;
    std::size_t count;
  };

  /// Adds the scores that the queries of a step, `now` or one before, give the tokens of the cache.
  void count(const PastStep& past, const Step& now) {
    const Slots seen = slots_in_reach(past.index, now.tokens);
    const auto tokens = now.tokens.subspan(seen.first, seen.count);
    for (std::size_t head = 0; head < past.queries.size(); ++head) {
      set_logits(past, head, now, seen);
      set_shares(head);
      if (left_out_.empty()) {
        for (std::size_t i = 0; i < tokens.size(); ++i) {
          sum_of(tokens[i]) += shares_[i] * lengths_[static_cast<std::size_t>(tokens[i])];
        }
      } else {
        add_squared_changes(now, seen);
      }
    }
  }

  /// What a step sees but for its own selection: a layer's window and chunk hide the oldest tokens.
  Slots slots_in_reach(int step, std::span<const std::int32_t> tokens) const {
    std::int32_t oldest = 0;
    if (window_) oldest = std::max(oldest, step - *window_ + 1);
    if (chunk_) oldest = std::max(oldest, step / *chunk_ * *chunk_);
    const auto first = std::ranges::lower_bound(tokens, oldest) - tokens.begin();
    const auto end = std::ranges::upper_bound(tokens, step) - tokens.begin();
    return {static_cast<std::size_t>(first), static_cast<std::size_t>(end - first)};
  }

  void set_logits(const PastStep& past, std::size_t head, const Step& now, Slots seen) {
    const std::vector<double> query(past.queries[head].begin(), past.queries[head].end());
    rows_.resize(seen.count);
    for (std::size_t i = 0; i < seen.count; ++i) rows_[i] = now.keys[seen.first + i].data();
    logits_.resize(seen.count);
    row_products(rows_, query, logits_.data());
    for (std::size_t i = 0; i < seen.count; ++i) {
      const double logit = scale_ * logits_[i];
      logits_[i] = softcap_ ? *softcap_ * std::tanh(logit / *softcap_) : logit;
      const bool is_selected =
          past.selected.empty() ||
          std::ranges::binary_search(past.selected, now.tokens[seen.first + i]);
      if (!is_selected) logits_[i] = kHidden;
    }
  }

  /// The softmax of the logits and, if there is one, of the learned sink.
  void set_shares(std::size_t head) {
    const double sink = sinks_.empty() ? kHidden : double{sinks_[head]};
    const double most = std::max(sink, *std::max_element(logits_.begin(), logits_.end()));
    shares_.assign(logits_.size(), 0);
    if (std::isinf(most)) return;  // a step may select nothing of the cache
    double total = std::exp(sink - most);
    for (std::size_t i = 0; i < shares_.size(); ++i) {
      shares_[i] = std::exp(logits_[i] - most);
      total += shares_[i];
    }
    for (double& share : shares_) share /= total;
  }

  void add_squared_changes(const Step& now, Slots seen) {
    const std::size_t num_seen = seen.count;
    for (std::size_t i = 0; i < num_seen; ++i) rows_[i] = now.values[seen.first + i].data();
    output_.resize(now.values.dim());
    weighted_row_sums(rows_, shares_.data(), output_);
    squares_.assign(num_seen, 0);
    std::vector<double> of_value(num_seen);
    std::vector<double> of_output(num_seen);
    std::vector<double> changes(num_seen);
    for (const LeftOut& left_out : left_out_) {
      for (std::size_t i = 0; i < num_seen; ++i) {
        // Where the share is 0 the logit may be infinite; nothing is added there.
        of_output[i] = left_out.logit && shares_[i] > 0 ? logits_[i] : 0;
        of_value[i] = left_out.value + of_output[i];
      }
      // Differences are squared, not expanded: |x v - y o|^2 by three products would lose twice the
      // digits.
      squares_of_differences(rows_, of_value.data(), output_, of_output.data(), changes.data());
      for (std::size_t i = 0; i < num_seen; ++i) squares_[i] += changes[i];
    }
    for (std::size_t i = 0; i < num_seen; ++i) {
      if (shares_[i] > 0) {
        sum_of(now.tokens[seen.first + i]) += shares_[i] * shares_[i] * squares_[i];
      }
    }
  }

  static double l1_norm(std::span<const float> value) {
    return sum_in_lanes(value.size(), [&](std::size_t d) { return std::abs(double{value[d]}); });
  }

  void set_scores(std::span<const std::int32_t> tokens, std::span<double> scores) {
    for (std::size_t i = 0; i < tokens.size(); ++i) scores[i] = sum_of(tokens[i]);
    if (!pools_) return;
    const std::size_t recent = std::min(static_cast<std::size_t>(recent_), tokens.size());
    const auto pooled = pool_neighbours(scores.first(tokens.size() - recent), kKernel, max_);
    std::copy(pooled.begin(), pooled.end(), scores.begin());
  }

  double& sum_of(std::int32_t token) { return sums_[static_cast<std::size_t>(token)]; }

  static constexpr double kHidden = -std::numeric_limits<double>::infinity();
  static constexpr std::size_t kKernel = 7;  // of the authors' program, which has no other

  std::vector<LeftOut> left_out_;
  int recent_;
  bool newest_alone_;  // the query of the step that evicts counts alone
  bool waits_;         // until the first eviction, to count the last queries before it
  bool pools_;
  bool max_;
  double scale_;
  std::optional<double> softcap_;
  std::optional<int> window_;
  std::optional<int> chunk_;
  std::vector<float> sinks_;        // of each query head, or empty
  std::vector<double> sums_;        // by text position
  std::vector<double> lengths_;     // L1 norms of the values, likewise; for the L1 form
  std::deque<PastStep> past_;       // while it waits
  std::vector<double> logits_;      // of one query, per slot in its reach
  std::vector<double> shares_;      // likewise
  std::vector<double> squares_;     // likewise, of changes of the output
  std::vector<double> output_;      // [value_dim]
  std::vector<const float*> rows_;  // likewise, keys or values
};

}  // namespace

PolicyInfo obcache_policy() {
  return {
      .name = "obcache",
      .keeps = "recent tokens and those without which outputs would move most, to first order",
      .source = "OBCache (arXiv 2510.07651), the scores for values, keys and pairs",
      .sees = "queries, keys, values",
      .differences =
          "the authors' program has a cache for each query head; here a KV head has one, and adds "
          "up "
          "the scores of its query heads, as the squares of their outputs add up. Logits are those "
          "after a softcap, and a learned sink takes its share. queries=recent takes the first "
          "step "
          "that evicts for the end of the prompt, which it is not if the prompt fits the budget, "
          "and "
          "counts one query at least: with recent=0 the program counts all",
      .params =
          {Param::choice("score", {"vk", "v", "k", "v-and-k", "v-l1"},
                         "what outputs do without: key and value, one of them, each for itself "
                         "(without the cross term), or the value in the L1 norm"),
           Param::amount("recent", "0.25", "newest tokens that always stay"),
           Param::choice("queries", {"recent", "all", "newest"},
                         "which count: of those up to the first eviction as many as recent says, "
                         "and all later ones; all; the current one"),
           Param::choice("pool", {"none", "max", "avg"},
                         "whether and how seven neighbouring tokens share scores, as in SnapKV")},
      .presets =
          {{"h2o", "",
            "H2O with OBCache, the authors' program with method=obcVK and --mode prefill; obcV, "
            "obcK, obcVK_no_cross and obcV_p1 are score=v, k, v-and-k and v-l1. num_recent R and "
            "num_heavy H are a budget of R+H with recent=R: 100% of its sets"},
           {"h2o-all", "queries=all",
            "the same with method=obcVK_fullhist: 100% of its sets, of a text that it reads token "
            "by token, too"},
           {"tova", "recent=0,queries=newest",
            "TOVA with OBCache, method=obcVK+tova, where R+H is the budget, too: 100% of its sets"},
           {"snapkv", "pool=max",
            "SnapKV with OBCache, method=obcVK+maxpool, otherwise as h2o. Maximum pooling makes "
            "plateaus, and of equals the program keeps others: 27% of its sets; 100% of those that "
            "it keeps if changed to evict the earliest of equals"},
           {"snapkv-avg", "pool=avg", "the same with method=obcVK+avgpool: 100% of its sets"}},
      .needs_budget = true,  // the first eviction says which queries count
      .scoring_cost =
          [](const Params& params, const UnitSizes& unit, std::int64_t held) {
            const bool compares = params.choice("score") != "v-l1";
            const std::int64_t dims = compares ? unit.dims() : unit.head_dim;
            return unit.attended(held) * unit.group * (10 + dims / 4);
          },
      .make = make_policy<OptimalBrainCache>};
}

}  // namespace kvsim
