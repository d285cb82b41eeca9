#include "oracle/auction/takers.h"

#include <optional>

#include "sim/base/interrupt.h"

namespace kvsim {

Takers::Takers(const RemainingSums& costs, const EvictionSteps& steps, int budget, int recent)
    : Takers(&costs, nullptr, steps, budget, recent) {}

Takers::Takers(const CompactSums& costs, const EvictionSteps& steps, int budget, int recent)
    : Takers(nullptr, &costs, steps, budget, recent) {}

Takers::Takers(const RemainingSums* full, const CompactSums* compact, const EvictionSteps& steps,
               int budget, int recent)
    : full_(full), compact_(compact), num_tokens_(steps.num_tokens()), recent_(recent) {
  const std::vector<int> evictions = steps.num_evictions(budget);
  int left = num_tokens_;
  for (int step = 0; step < num_tokens_; ++step) {
    total_ += full != nullptr ? full->row(step)[step] : compact->at(step, step);
    if (evictions[step] == 0) continue;
    steps_.push_back(step);
    units_.push_back(evictions[step]);
    left -= evictions[step];
  }
  steps_.push_back(num_tokens_);
  units_.push_back(left);
  made_[num_tokens_] = std::make_shared<const std::vector<float>>(num_tokens_, 0);
  find_rows();
}

void Takers::find_rows() {
  rows_.assign(units_.size(), nullptr);
  rows_.back() = made_.at(num_tokens_)->data();
  std::optional<CompactRow> row;
  for (int taker = stay() - 1; taker >= 0; --taker) {
    if (full_ != nullptr) {
      rows_[taker] = full_->row(steps_[taker]);
    } else if (!has_few_units(taker)) {
      poll_interrupt();
      auto& made = made_[steps_[taker]];
      if (made == nullptr) {
        if (!row) row.emplace(*compact_);
        const std::span<const float> costs = row->at(steps_[taker]);
        made = std::make_shared<const std::vector<float>>(costs.begin(), costs.end());
      }
      rows_[taker] = made->data();
    }
  }
}

void Takers::visit_costs(const std::function<void(int, std::span<const float>)>& visit) const {
  std::optional<CompactRow> row;
  for (int taker = stay(); taker >= 0; --taker) {
    poll_interrupt();
    if (has_costs(taker)) {
      visit(taker, costs(taker));
    } else {
      if (!row) row.emplace(*compact_);
      visit(taker, row->at(steps_[taker]).first(num_choices(taker)));
    }
  }
}

Takers Takers::merged(int units) const {
  Takers fewer = *this;
  fewer.steps_.clear();
  fewer.units_.clear();
  for (int taker = 0; taker < count(); ++taker) {
    if (taker == stay() || fewer.units_.empty() || fewer.units_.back() >= units) {
      fewer.steps_.push_back(step(taker));
      fewer.units_.push_back(0);
    }
    fewer.steps_.back() = step(taker);
    fewer.units_.back() += units_[taker];
  }
  fewer.find_rows();
  return fewer;
}

}  // namespace kvsim
