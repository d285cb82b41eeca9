#include "sim/tiers/attended_pages.h"

#include <algorithm>

#include "sim/base/interrupt.h"

namespace kvsim {

AttendedPages::AttendedPages(const SelectorSpec& selector, ReplayedUnit& unit, bool sums_mass,
                             std::uint64_t seed)
    : replayed_(unit),
      unit_(unit.unit()),
      sums_mass_(sums_mass),
      selector_(selector.make({unit.unit(), unit.steps().first(), seed})),
      attention_(unit),
      estimate_(unit, Rules(), 0),
      deltas_(unit.unit()) {
  unit.require_outputs();
  choices_.page = selector.page();
  choices_.num_tokens = unit_.num_tokens();
  choices_.first_measured = unit.steps().first();
  sums_.summary_bytes = selector.summary_bytes(unit_);
  if (sums_mass) choices_.prompt_mass.resize(static_cast<std::size_t>(choices_.num_pages()));
}

void AttendedPages::add_block(const std::vector<PageAttention>& attention) {
  const AttentionBlock& block = replayed_.block();
  if (block.first_step + block.num_steps > choices_.first_measured) selector_->begin_block(block);
  for (int row = 0; row < block.num_steps; ++row) {
    poll_interrupt();
    if (block.first_step + row < choices_.first_measured) {
      if (sums_mass_) add_prompt_step(attention[row]);
      continue;
    }
    add_step(row, attention[row]);
  }
}

void AttendedPages::add_prompt_step(const PageAttention& attention) {
  const auto older = attention.older();
  for (std::size_t page = 0; page < older.size(); ++page) choices_.prompt_mass[page] += older[page];
  choices_.prompt_mass[older.size()] += attention.own();
}

void AttendedPages::add_step(int row, const PageAttention& attention) {
  const int step = replayed_.block().first_step + row;
  // Nothing is chosen before the first measured step.
  choices_.end.resize(static_cast<std::size_t>(step) + 1, choices_.end.back());
  selector_->choose({.step = step,
                     .row = row,
                     .candidates = attention.candidates(),
                     .attention = attention.older(),
                     .always = attention.own() + attention.sink()},
                    chosen_);
  compare(attention, step);
  choices_.pages.insert(choices_.pages.end(), chosen_.begin(), chosen_.end());
  choices_.end.push_back(std::ssize(choices_.pages));
  ++sums_.steps;
  sums_.accesses += std::ssize(chosen_);
  attend(row);
  if (sums_mass_) add_masses(attention, step);
}

void AttendedPages::compare(const PageAttention& attention, int step) {
  const auto before =
      step > choices_.first_measured ? choices_.at(step - 1) : std::span<const std::int32_t>();
  if (!before.empty()) {
    overlap_sum_ +=
        static_cast<double>(num_common(before, chosen_)) / static_cast<double>(before.size());
    ++overlap_steps_;
  }
  if (chosen_.empty()) return;
  choose_best(attention.candidates(), attention.older(), chosen_.size(), exact_);
  topk_sum_ +=
      static_cast<double>(num_common(exact_, chosen_)) / static_cast<double>(chosen_.size());
  ++topk_steps_;
}

void AttendedPages::attend(int row) {
  const int step = replayed_.block().first_step + row;
  const int first = first_visible(unit_, step);
  const auto add_tokens = [&](int begin, int end) {
    for (int token = std::max(begin, first); token < end; ++token) tokens_.push_back(token);
  };
  tokens_.clear();
  for (const std::int32_t page : chosen_) {
    add_tokens(page * choices_.page, (page + 1) * choices_.page);
  }
  add_tokens(step / choices_.page * choices_.page, step + 1);
  const auto num_heads = static_cast<double>(unit_.group_size());
  double attended = 0;
  double loss = 0;
  double squared = 0;
  mean_.assign(tokens_.size(), 0);
  for (int head = 0; head < unit_.group_size(); ++head) {
    const Measurement measured = measure(head, row);
    const auto sample = selector_->sample(head);
    attended += static_cast<double>(
        !sample.empty()  ? std::ssize(sample)
        : unit_.selected ? std::count_if(tokens_.begin(), tokens_.end(),
                                         [&](int token) { return is_visible(unit_, step, token); })
                         : std::ssize(tokens_));
    loss += measured.attention_loss;
    squared += measured.squared;
  }
  sums_.attended_mean += attended / num_heads;
  sums_.attention_recall += 1 - loss / num_heads;
  sums_.output_error_sq += squared / num_heads;
}

Measurement AttendedPages::measure(int head, int row) {
  if (const auto sample = selector_->sample(head); !sample.empty()) {
    estimate_.estimate(head, row, sample);
    return estimate_.measure(deltas_);
  }
  attention_.attend(head, row, tokens_);
  if (sums_mass_) attention_.add_to_mean(unit_.group_size(), mean_);
  return attention_.measure(deltas_);
}

// An estimate has no attention among what it attends to: the full attention stands for it.
void AttendedPages::add_masses(const PageAttention& attention, int step) {
  const int own_page = step / choices_.page;
  std::vector<float>& masses = choices_.mass;
  if (!selector_->sample(0).empty()) {
    for (const std::int32_t page : chosen_) {
      masses.push_back(static_cast<float>(attention.older()[page]));
    }
    choices_.own_mass.push_back(static_cast<float>(attention.own()));
    return;
  }
  double own = 0;
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    const int page = tokens_[i] / choices_.page;
    if (page == own_page) {
      own += mean_[i];
    } else {
      const bool is_first = i == 0 || tokens_[i - 1] / choices_.page != page;
      if (is_first) masses.push_back(0);
      masses.back() += mean_[i];
    }
  }
  choices_.own_mass.push_back(static_cast<float>(own));
}

SelectionQuality AttendedPages::quality() const {
  SelectionQuality quality = sums_;
  const auto steps = static_cast<double>(std::max<std::int64_t>(sums_.steps, 1));
  quality.attended_mean /= steps;
  quality.attention_recall /= steps;
  quality.output_error_sq /= steps;
  if (topk_steps_ > 0) quality.topk_overlap = topk_sum_ / static_cast<double>(topk_steps_);
  if (overlap_steps_ > 0) quality.step_overlap = overlap_sum_ / static_cast<double>(overlap_steps_);
  return quality;
}

}  // namespace kvsim
