// SparQ: approximate attention from the largest components of the query.

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "sim/kernels/attention_kernels.h"
#include "sim/tiers/page_attention.h"
#include "sim/tiers/selector.h"

namespace kvsim {
namespace {

class SparQ final : public Selector {
 public:
  SparQ(const Params& params, const Unit& unit)
      : unit_(unit),
        page_(params.integer("page")),
        count_(static_cast<std::size_t>(pages_of(params))),
        rank_(std::min<Eigen::Index>(params.integer("rank"), unit.key.cols())),
        by_component_(unit.key.transpose()) {}

  void choose(const SelectorStep& step, std::vector<std::int32_t>& chosen) override {
    find_components(step.step);
    score_.assign(step.attention.size(), 0);
    for (int head = 0; head < unit_.group_size(); ++head) add_attention(head, step.step);
    choose_best(step.candidates, score_, count_, chosen);
  }

 private:
  // Algorithm 1, step 1; under grouped queries |q| is summed over the heads (the paper's code).
  void find_components(int step) {
    Eigen::RowVectorXd size = Eigen::RowVectorXd::Zero(unit_.key.cols());
    for (const Matrix& query : unit_.query) size += query.row(step).cwiseAbs().cast<double>();
    components_.resize(static_cast<std::size_t>(unit_.key.cols()));
    std::iota(components_.begin(), components_.end(), 0);
    std::stable_sort(components_.begin(), components_.end(),
                     [&](Eigen::Index a, Eigen::Index b) { return size[a] > size[b]; });
    components_.resize(static_cast<std::size_t>(rank_));
    std::sort(components_.begin(), components_.end());
  }

  // Adds the approximate attention of a query head, too: logits of these components, whose scale
  // grows as the share of |q| that they have shrinks.
  void add_attention(int head, int step) {
    const auto query = unit_.query[head].row(step);
    double kept = 0;
    for (const Eigen::Index component : components_) kept += std::abs(query[component]);
    const double whole = query.cwiseAbs().cast<double>().sum();
    const double scale = kept > 0 ? unit_.scale * std::sqrt(whole / kept) : 0;
    const int begin = first_visible(unit_, step);
    const Eigen::Index count = step + 1 - begin;
    logit_.setZero(count);
    for (const Eigen::Index component : components_) {
      const auto factor = static_cast<float>(scale * query[component]);
      logit_ += factor * by_component_.row(component).segment(begin, count).array();
    }
    if (unit_.logit_softcap) {
      logit_ = *unit_.logit_softcap * (logit_ / *unit_.logit_softcap).tanh();
    }
    if (unit_.selected) hide_unselected(step, begin);
    weight_.resize(static_cast<std::size_t>(count));
    float offset = unit_.sink(head);
    const double sum = exponentials({logit_.data(), weight_.size()}, weight_.data(), offset) +
                       sink_weight(unit_, head, offset);
    if (sum <= 0) return;
    const int end = static_cast<int>(score_.size()) * page_;
    for (int token = begin; token < end; ++token) {
      score_[token / page_] += weight_[token - begin] / sum;
    }
  }

  void hide_unselected(int step, int begin) {
    for (int token = begin; token <= step; ++token) {
      if (!is_visible(unit_, step, token)) {
        logit_[token - begin] = -std::numeric_limits<float>::infinity();
      }
    }
  }

  const Unit& unit_;
  int page_;
  std::size_t count_;
  Eigen::Index rank_;
  Matrix by_component_;  // keys, [head_dim, tokens]
  std::vector<Eigen::Index> components_;
  Eigen::Array<float, 1, Eigen::Dynamic> logit_;  // of the tokens that the step sees
  std::vector<float> weight_;
  std::vector<double> score_;  // per page
};

/// The keys, whose components are read where the query is large; the query decides which.
std::int64_t summary_bytes(const Params&, const Unit& unit) {
  return std::int64_t{unit.num_tokens()} * unit.key.cols() * unit.key_bytes;
}

}  // namespace

SelectorInfo sparq_selector() {
  return {.name = "sparq",
          .chooses =
              "the pages with the largest attention as the `rank` largest components of the "
              "query give it, summed over the query heads of the group",
          .source = "SparQ Attention (Ribar et al. 2024), Algorithm 1, steps 1 and 2",
          .differences =
              "the mean value does not stand in for what is not attended to (step 3), "
              "and the most recent tokens are there as the step's page",
          .params = {number_param(),
                     Param::integer("rank", 32, 1, 1'000'000,
                                    "components of the query, or all that it has"),
                     page_param()},
          .make = make_selector<SparQ>,
          .summary_bytes = summary_bytes};
}

}  // namespace kvsim
