// SparQ: approximate attention from the largest components of the query.

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/tiers/approximate_attention.h"
#include "sim/tiers/page_attention.h"
#include "sim/tiers/selector.h"

namespace kvsim {
namespace {

class SparQ final : public Selector {
 public:
  SparQ(const Params& params, const SelectorContext& context)
      : unit_(context.unit),
        count_(static_cast<std::size_t>(pages_of(params))),
        rank_(std::min<Eigen::Index>(params.integer("rank"), unit_.key.cols())),
        by_component_(unit_.key.transpose()),
        attention_(unit_, params.integer("page")) {}

  void choose(const SelectorStep& step, std::vector<std::int32_t>& chosen) override {
    find_components(step.step);
    attention_.begin(step.step);
    for (int head = 0; head < unit_.group_size(); ++head) {
      set_logits(unit_.query[head].row(step.step), attention_.logits());
      attention_.add(head);
    }
    choose_best(step.candidates, attention_.pages(), count_, chosen);
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

  // Algorithm 1, step 1, too: logits of these components, whose scale grows as the share of |q|
  // that they have shrinks.
  void set_logits(const Eigen::Ref<const Eigen::RowVectorXf>& query, std::vector<float>& logits) {
    double kept = 0;
    for (const Eigen::Index component : components_) kept += std::abs(query[component]);
    const double whole = query.cwiseAbs().cast<double>().sum();
    const double scale = kept > 0 ? unit_.scale * std::sqrt(whole / kept) : 0;
    Eigen::Map<Eigen::RowVectorXf> sum(logits.data(), std::ssize(logits));
    sum.setZero();
    for (const Eigen::Index component : components_) {
      const auto factor = static_cast<float>(scale * query[component]);
      sum += factor * by_component_.row(component).segment(attention_.first(), sum.size());
    }
  }

  const Unit& unit_;
  std::size_t count_;
  Eigen::Index rank_;
  Matrix by_component_;  // keys, [head_dim, tokens]
  ApproximateAttention attention_;
  std::vector<Eigen::Index> components_;
};

/// The keys, whose components are read where the query is large; the query decides which.
std::int64_t sparq_bytes(const Params&, const Unit& unit) {
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
              "the most recent tokens are there as the step's page, and under grouped queries "
              "the heads' attention is added up, in the code their logits",
          .params = {number_param(),
                     Param::integer("rank", 32, 1, 1'000'000,
                                    "components of the query, or all that it has"),
                     page_param()},
          .make = make_selector<SparQ>,
          .summary_bytes = sparq_bytes,
          .pair_nanoseconds = 14};
}

}  // namespace kvsim
