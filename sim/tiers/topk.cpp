// Exact Top-K: what an ideal selector of so many tokens chooses.

#include "sim/tiers/page_attention.h"
#include "sim/tiers/selector.h"

namespace kvsim {
namespace {

class TopK final : public Selector {
 public:
  TopK(const Params& params, const SelectorContext&)
      : count_(static_cast<std::size_t>(pages_of(params))) {}

  void choose(const SelectorStep& step, std::vector<std::int32_t>& chosen) override {
    choose_best(step.candidates, step.attention, count_, chosen);
  }

 private:
  std::size_t count_;
};

}  // namespace

SelectorInfo topk_selector() {
  return {.name = "topk",
          .chooses = "the pages with the largest sum of full attention, group mean; exact",
          .source = "H2O section C.5, Table 8, at pages of one token",
          .params = {number_param(), page_param()},
          .make = make_selector<TopK>};
}

}  // namespace kvsim
