// Quest: the minimum and maximum of a page's keys bound every logit in the page.

#include <algorithm>

#include "sim/kernels/attention_kernels.h"
#include "sim/tiers/page_attention.h"
#include "sim/tiers/selector.h"

namespace kvsim {
namespace {

// max(q min, q max) is q+ max + q- min, with q+ = max(q, 0) and q- = min(q, 0): so the bounds of a
// block are products of [q+, q-] and [max, min].
class Quest final : public Selector {
 public:
  Quest(const Params& params, const SelectorContext& context)
      : unit_(context.unit),
        page_(params.integer("page")),
        count_(static_cast<std::size_t>(pages_of(params))),
        extremes_(2 * static_cast<int>(unit_.key.cols()), 1) {
    const Eigen::Index dims = unit_.key.cols();
    Matrix row(1, 2 * dims);
    for (int page = 0; page < unit_.num_tokens() / page_; ++page) {
      const auto keys = unit_.key.middleRows(Eigen::Index{page} * page_, page_);
      row.leftCols(dims) = keys.colwise().maxCoeff();
      row.rightCols(dims) = keys.colwise().minCoeff();
      extremes_.put(page, row.data());
    }
  }

  void begin_block(const AttentionBlock& block) override {
    const int num_pages = (block.first_step + block.num_steps - 1) / page_;
    bounds_.setZero(block.num_steps, num_pages);
    if (num_pages == 0) return;
    product_.resize(block.num_steps, num_pages);
    for (const Matrix& query : unit_.query) {
      const auto rows = query.middleRows(block.first_step, block.num_steps);
      parts_.resize(block.num_steps, 2 * query.cols());
      parts_.leftCols(query.cols()) = rows.cwiseMax(0.0F);
      parts_.rightCols(query.cols()) = rows.cwiseMin(0.0F);
      extremes_.multiply(parts_.data(), block.num_steps, num_pages, product_.data());
      bounds_ += product_.cast<double>();
    }
  }

  void choose(const SelectorStep& step, std::vector<std::int32_t>& chosen) override {
    choose_best(step.candidates,
                {bounds_.row(step.row).data(), static_cast<std::size_t>(bounds_.cols())}, count_,
                chosen);
  }

 private:
  const Unit& unit_;
  int page_;
  std::size_t count_;
  KeyPanels extremes_;   // [pages, 2 head_dim]: largest, then smallest key of each dimension
  Matrix parts_;         // [steps, 2 head_dim]: of one query head, [q+, q-]
  Matrix product_;       // [steps, pages]: of one query head
  MatrixDouble bounds_;  // [steps, pages]: summed over the query heads
};

std::int64_t quest_bytes(const Params& params, const Unit& unit) {
  return std::int64_t{unit.num_tokens() / params.integer("page")} * 2 * unit.key.cols() *
         unit.key_bytes;
}

}  // namespace

SelectorInfo quest_selector() {
  return {.name = "quest",
          .chooses =
              "the pages with the largest upper bound of their logits, summed over the "
              "query heads of the group",
          .source = "Quest (Tang et al. 2024), section 3.3, Algorithm 1",
          .differences =
              "in every layer; the paper leaves the first two dense. The step's own "
              "page is not among the k tokens",
          .params = {number_param(), page_param(16)},
          .make = make_selector<Quest>,
          .summary_bytes = quest_bytes};
}

}  // namespace kvsim
