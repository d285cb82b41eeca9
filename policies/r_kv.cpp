// R-KV (Cai et al., "R-KV: Redundancy-aware KV Cache Compression for Reasoning Models", 2025, arXiv
// 2505.24133, section 3): reasoning repeats itself, so a token has to be attended to and to be
// unlike the others. The last steps say what is important, the keys say what is redundant.

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <vector>

#include "policies/interface/policy_info.h"
#include "policies/parts/key_redundancy.h"
#include "policies/parts/lane_sums.h"
#include "policies/parts/pooling.h"

namespace kvsim {
namespace {

class RedundancyAware final : public Policy {
 public:
  RedundancyAware(const Params& params, const Context& context)
      : window_(params.integer("window")),
        kernel_(static_cast<std::size_t>(params.integer("kernel"))),
        lambda_(params.real("lambda")),
        pools_maximum_(params.choice("heads") == "max"),
        scale_(context.scale),
        redundancy_(params.real("threshold"), params.choice("fallback") == "first") {}

  Rules rules() const override {
    return {.protect_newest = window_,
            .sees_queries = true,
            .remembered = {.steps = 1, .bytes_per_token = kBytesPerToken}};
  }

  void update(const Step& step, std::span<double> scores) override {
    auto& queries = queries_.emplace_back();
    for (const std::span<const float> query : step.queries) {
      queries.emplace_back(query.begin(), query.end());
    }
    if (std::ssize(queries_) > window_) queries_.pop_front();
    if (step.overflow == 0) return;
    redundancy_.follow(step.tokens, [&](std::size_t slot) { return step.keys[slot]; });
    const std::vector<double> redundancies = redundancy_.softmax_of_means();
    const std::size_t window = std::min(static_cast<std::size_t>(window_), step.tokens.size());
    const std::vector<double> importances = importance(step, step.tokens.size() - window);
    for (std::size_t i = 0; i < importances.size(); ++i) {
      scores[i] = lambda_ * importances[i] - (1 - lambda_) * redundancies[i];
    }
  }

 private:
  /// Of the first `count` slots: the attention of the last steps among these, pooled over
  /// neighbours.
  std::vector<double> importance(const Step& step, std::size_t count) const {
    std::vector<double> sums(count, 0);
    std::vector<double> logits(count);
    for (const auto& heads : queries_) {
      if (pools_maximum_) {
        std::fill(logits.begin(), logits.end(), -std::numeric_limits<double>::infinity());
        for (const std::vector<float>& query : heads) {
          for (std::size_t i = 0; i < count; ++i) {
            logits[i] = std::max(logits[i], logit(query, step.keys[i]));
          }
        }
        add_softmax(logits, 1, sums);
      } else {
        for (const std::vector<float>& query : heads) {
          for (std::size_t i = 0; i < count; ++i) logits[i] = logit(query, step.keys[i]);
          add_softmax(logits, static_cast<double>(heads.size()), sums);
        }
      }
    }
    for (double& sum : sums) sum /= static_cast<double>(queries_.size());
    return pool_neighbours(sums, kernel_, true);
  }

  double logit(const std::vector<float>& query, std::span<const float> key) const {
    return scale_ * sum_in_lanes<4>(query.size(), [&](std::size_t d) {
             return double{query[d]} * double{key[d]};
           });
  }

  static void add_softmax(const std::vector<double>& logits, double divisor,
                          std::vector<double>& sums) {
    if (logits.empty()) return;
    const double most = *std::max_element(logits.begin(), logits.end());
    double sum = 0;
    for (const double logit : logits) sum += std::exp(logit - most);
    for (std::size_t i = 0; i < logits.size(); ++i) {
      sums[i] += std::exp(logits[i] - most) / (sum * divisor);
    }
  }

  // Directions of keys of 128 dimensions, for the estimate.
  static constexpr std::size_t kBytesPerToken = 128 * sizeof(double) + 64;

  int window_;
  std::size_t kernel_;
  double lambda_;
  bool pools_maximum_;
  double scale_;
  KeyRedundancy redundancy_;
  std::deque<std::vector<std::vector<float>>> queries_;  // of the last steps, per query head
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
          "the text. A step costs the cache times head_dim for each token that comes or goes, and "
          "the window times the cache for each query head",
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
            const std::int64_t window = params.integer("window");
            return unit.attended(held) * unit.head_dim * (2 + window * unit.group) / 2;
          },
      .make = make_policy<RedundancyAware>};
}

}  // namespace kvsim
