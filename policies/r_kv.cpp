// R-KV (Cai et al., "R-KV: Redundancy-aware KV Cache Compression for Reasoning Models", 2025, arXiv
// 2505.24133, section 3): reasoning repeats itself, so a token has to be attended to and to be
// unlike the others. The last steps say what is important, the keys say what is redundant.

#include <algorithm>
#include <cmath>
#include <deque>
#include <utility>
#include <vector>

#include "policies/interface/policy_info.h"
#include "policies/parts/erase_slots.h"
#include "policies/parts/key_redundancy.h"
#include "policies/parts/pooling.h"
#include "policies/parts/row_products.h"

namespace kvsim {
namespace {

// Cosines of more tokens than this, 128 MiB, are computed anew where they are needed.
constexpr int kMostTokensWithCosines = 4096;

/// Logits of a step, of its query heads together or of one. Lists have a place for each token that
/// was in the cache when they were made and that stays; tokens that come later are newer than any
/// that counts.
struct PastLogits {
  std::vector<double> logits;
  std::vector<double> weights;  // exp(logit - most) of the first ones
  double most = 0;
};

/// A step whose queries say what is important.
struct PastStep {
  std::vector<std::vector<double>> queries;  // per query head
  std::vector<PastLogits> heads;             // empty until the logits are needed
};

class RedundancyAware final : public Policy {
 public:
  RedundancyAware(const Params& params, const Context& context)
      : window_(params.integer("window")),
        kernel_(static_cast<std::size_t>(params.integer("kernel"))),
        lambda_(params.real("lambda")),
        pools_maximum_(params.choice("heads") == "max"),
        scale_(context.scale),
        budget_(context.budget),
        most_kept_(context.budget < kMostTokensWithCosines ? context.budget + 1 : 0),
        redundancy_(params.real("threshold"), params.choice("fallback") == "first",
                    static_cast<std::size_t>(most_kept_)) {}

  Rules rules() const override {
    return {.protect_newest = window_, .sees_queries = true, .remembered = remembered()};
  }

  void update(const Step& step, std::span<double> scores) override {
    auto& queries = past_.emplace_back().queries;
    for (const std::span<const float> query : step.queries) {
      queries.emplace_back(query.begin(), query.end());
    }
    if (std::ssize(past_) > window_) past_.pop_front();
    if (step.overflow == 0) return;
    const std::vector<std::size_t> left =
        redundancy_.follow(step.tokens, [&](std::size_t slot) { return step.keys[slot]; });
    if (!left.empty()) forget(left);
    const std::vector<double> redundancies = redundancy_.softmax_of_means();
    const std::size_t window = std::min(static_cast<std::size_t>(window_), step.tokens.size());
    const std::vector<double> importances = importance(step, step.tokens.size() - window);
    for (std::size_t i = 0; i < importances.size(); ++i) {
      scores[i] = lambda_ * importances[i] - (1 - lambda_) * redundancies[i];
    }
  }

 private:
  /// What the cosines, the directions of the keys and the logits take.
  Remembered remembered() const {
    const auto steps = static_cast<std::size_t>(std::min(window_, budget_));
    const std::size_t lists = pools_maximum_ ? 2 : 2 * kMostHeads;
    const std::size_t per_token = kBytesPerToken + steps * lists * sizeof(double);
    if (most_kept_ == 0) return {.steps = 1, .bytes_per_token = per_token};
    const auto kept = static_cast<std::size_t>(most_kept_);
    return {.steps = most_kept_,
            .bytes_per_token = KeyRedundancy::kBytesPerPair + (per_token + kept - 1) / kept};
  }

  void forget(const std::vector<std::size_t>& left) {
    for (PastStep& past : past_) {
      for (PastLogits& head : past.heads) {
        erase_slots(left, head.logits);
        erase_slots(left, head.weights);
      }
    }
  }

  /// Of the first `count` slots: the attention of the last steps among these, pooled over
  /// neighbours.
  std::vector<double> importance(const Step& step, std::size_t count) {
    if (count == 0) return {};
    std::vector<const float*> keys;
    for (std::size_t i = 0; i < step.tokens.size(); ++i) keys.push_back(step.keys[i].data());
    std::vector<double> sums(count, 0);
    for (PastStep& past : past_) {
      if (past.heads.empty()) past.heads = logits_of(past.queries, keys);
      for (PastLogits& head : past.heads) {
        add_softmax(head, static_cast<double>(past.heads.size()), sums);
      }
    }
    for (double& sum : sums) sum /= static_cast<double>(past_.size());
    return pool_neighbours(sums, kernel_, true);
  }

  std::vector<PastLogits> logits_of(const std::vector<std::vector<double>>& queries,
                                    const std::vector<const float*>& keys) const {
    std::vector<PastLogits> heads;
    for (const std::vector<double>& query : queries) {
      std::vector<double> logits(keys.size());
      row_products_in_four(keys, query, logits.data());
      for (double& logit : logits) logit *= scale_;
      if (!pools_maximum_ || heads.empty()) {
        heads.push_back({.logits = std::move(logits)});
        continue;
      }
      std::vector<double>& most = heads.front().logits;
      for (std::size_t i = 0; i < most.size(); ++i) most[i] = std::max(most[i], logits[i]);
    }
    return heads;
  }

  /// Adds the softmax over the first slots, one per sum, divided by `divisor`.
  static void add_softmax(PastLogits& head, double divisor, std::vector<double>& sums) {
    const auto end = head.logits.begin() + std::ssize(sums);
    const double most = *std::max_element(head.logits.begin(), end);
    if (most != head.most) head.weights.clear();
    head.most = most;
    for (std::size_t i = head.weights.size(); i < sums.size(); ++i) {
      head.weights.push_back(std::exp(head.logits[i] - most));
    }
    double sum = 0;
    for (std::size_t i = 0; i < sums.size(); ++i) sum += head.weights[i];
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += head.weights[i] / (sum * divisor);
  }

  // Directions of keys of 128 dimensions, for the estimate.
  static constexpr std::size_t kBytesPerToken = 128 * sizeof(double) + 64;
  static constexpr std::size_t kMostHeads = 8;  // query heads of a KV head, for the estimate

  int window_;
  std::size_t kernel_;
  double lambda_;
  bool pools_maximum_;
  double scale_;
  int budget_;
  int most_kept_;  // tokens whose cosines are kept: of a stream, but not of a long prompt
  KeyRedundancy redundancy_;
  std::deque<PastStep> past_;  // the last steps
};

}  // namespace

PolicyInfo r_kv_policy() {
  return {
      .name = "r-kv",
      .keeps = "the last tokens, and those that they attend to and that are unlike the others",
      .source = "R-KV (Cai et al. 2025, arXiv 2505.24133), section 3; the authors' program",
      .sees = "queries, keys",
      .differences =
          "a buffer of B new tokens is --eviction-interval B (128 in the program), whose evictions "
          "fall on other steps here. The program leaves its cache in the order of scores, by which "
          "it pools neighbours and finds the latest key that is alike; here that is the order of "
          "the text. A step costs the cache times head_dim for the token that comes and for each "
          "query head, and the window times the cache",
      .params =
          {Param::integer("window", 8, 1, 100'000,
                          "last steps whose queries say what is important; their tokens stay"),
           Param::integer("kernel", 7, 1, 1'000, "neighbouring tokens that share importance"),
           Param::real("lambda", 0.1, 0, 1, "weight of importance; redundancy has the rest"),
           Param::choice("heads", {"max", "mean"},
                         "of the query heads of a KV head: the largest logit, as in the program, "
                         "or the mean attention"),
           Param::real("threshold", 0.5, -1, 1, "keys with a larger cosine are alike"),
           Param::choice("fallback", {"none", "first"},
                         "what a key that none is like does not count as redundant: nothing, or, "
                         "as in the program, the first token of the cache")},
      .presets =
          {{"code", "lambda=0.07,fallback=first",
            "defaults of the authors' program; its budget is the budget: 100% of its sets where a "
            "prompt is cut, and later, too, if its cache is kept in the order of the text; as it "
            "is, in the order of scores, 6% of them after the prompt"}},
      .scoring_cost =
          [](const Params& params, const UnitSizes& unit, std::int64_t held) {
            const std::int64_t lists = params.choice("heads") == "max" ? 1 : unit.group;
            return unit.attended(held) * (50 + unit.head_dim * (1 + unit.group) / 5 +
                                          6 * params.integer("window") * lists);
          },
      .make = make_policy<RedundancyAware>};
}

}  // namespace kvsim
