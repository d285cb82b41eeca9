// Exact Top-P: as many pages as a share of the attention takes, and no fixed number.

#include <algorithm>

#include "sim/tiers/selector.h"

namespace kvsim {
namespace {

class TopP final : public Selector {
 public:
  TopP(const Params& params, const SelectorContext&) : share_(params.real("p")) {}

  // A heap, as few of many pages are taken.
  void choose(const SelectorStep& step, std::vector<std::int32_t>& chosen) override {
    const auto is_worse = [&](std::int32_t a, std::int32_t b) {
      return step.attention[a] != step.attention[b] ? step.attention[a] < step.attention[b] : a < b;
    };
    left_.assign(step.candidates.begin(), step.candidates.end());
    std::make_heap(left_.begin(), left_.end(), is_worse);
    chosen.clear();
    for (double sum = step.always; sum < share_ && !left_.empty();) {
      std::pop_heap(left_.begin(), left_.end(), is_worse);
      chosen.push_back(left_.back());
      sum += step.attention[left_.back()];
      left_.pop_back();
    }
    std::sort(chosen.begin(), chosen.end());
  }

 private:
  double share_;
  std::vector<std::int32_t> left_;
};

}  // namespace

SelectorInfo top_p_selector() {
  return {.name = "top-p",
          .chooses =
              "the fewest pages with which the step attends to a share p of its full "
              "attention, group mean; exact",
          .source = "Twilight (Lin et al. 2025), Top-p pruning",
          .differences =
              "the step's own page and a learned sink, which are attended to in any "
              "case, count towards the share",
          .params = {Param::real("p", 0.95, 0, 1, "the share of the full attention to reach"),
                     page_param()},
          .make = make_selector<TopP>};
}

}  // namespace kvsim
