#include "oracle/auction/bidders.h"

namespace kvsim {

Bidders::Bidders(const RemainingSums& costs, const EvictionSteps& steps, int budget, int recent)
    : costs_(&costs),
      num_tokens_(steps.num_tokens()),
      recent_(recent),
      free_(std::make_shared<const std::vector<float>>(steps.num_tokens(), 0.F)) {
  const std::vector<int> evictions = steps.num_evictions(budget);
  int left = num_tokens_;
  for (int step = 0; step < num_tokens_; ++step) {
    total_ += costs.row(step)[step];
    if (evictions[step] == 0) continue;
    steps_.push_back(step);
    units_.push_back(evictions[step]);
    left -= evictions[step];
  }
  steps_.push_back(num_tokens_);
  units_.push_back(left);
  find_rows();
}

void Bidders::find_rows() {
  rows_.assign(units_.size(), free_->data());
  for (int bidder = 0; bidder < stay(); ++bidder) rows_[bidder] = costs_->row(steps_[bidder]);
}

Bidders Bidders::merged(int units) const {
  Bidders fewer = *this;
  fewer.steps_.clear();
  fewer.units_.clear();
  for (int bidder = 0; bidder < count(); ++bidder) {
    if (bidder == stay() || fewer.units_.empty() || fewer.units_.back() >= units) {
      fewer.steps_.push_back(step(bidder));
      fewer.units_.push_back(0);
    }
    fewer.steps_.back() = step(bidder);
    fewer.units_.back() += units_[bidder];
  }
  fewer.find_rows();
  return fewer;
}

}  // namespace kvsim
