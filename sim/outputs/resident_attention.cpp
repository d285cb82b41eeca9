#include "sim/outputs/resident_attention.h"

#include <algorithm>

namespace kvsim {

ResidentAttention::ResidentAttention(const ReplayedUnit& unit)
    : replayed_(unit), unit_(unit.unit()), keys_(static_cast<int>(unit_.key.cols()), unit_.scale) {}

void ResidentAttention::attend(int head, int row, std::span<const std::int32_t> tokens) {
  const int step = replayed_.block().first_step + row;
  if (!std::equal(tokens.begin(), tokens.end(), held_.begin(), held_.end())) update_keys(tokens);
  const std::size_t num_places = place_.size() + free_.size();
  logit_by_place_.resize((num_places + kBlockSteps - 1) / kBlockSteps * kBlockSteps);
  keys_.multiply(unit_.query[head].row(step).data(), 1, static_cast<int>(logit_by_place_.size()),
                 logit_by_place_.data());
  const auto visible = std::lower_bound(tokens.begin(), tokens.end(), first_visible(unit_, step));
  const auto num_hidden = static_cast<std::size_t>(visible - tokens.begin());
  logit_.clear();
  for (std::size_t slot = num_hidden; slot < tokens.size(); ++slot) {
    logit_.push_back(logit_by_place_[place_[slot]]);
  }
  if (unit_.logit_softcap) {
    const float cap = *unit_.logit_softcap;
    Eigen::Map<Eigen::ArrayXf> logit(logit_.data(), std::ssize(logit_));
    logit = cap * (logit / cap).tanh();
  }
  weight_.assign(tokens.size(), 0);
  weight_sum_ = exponentials(logit_, weight_.data() + num_hidden);
}

// Both lists are ascending, and evicted tokens do not return.
void ResidentAttention::update_keys(std::span<const std::int32_t> tokens) {
  std::size_t kept = 0;
  for (std::size_t slot = 0; slot < held_.size(); ++slot) {
    if (kept < tokens.size() && tokens[kept] == held_[slot]) {
      place_[kept++] = place_[slot];
    } else {
      free_.push_back(place_[slot]);
    }
  }
  place_.resize(kept);
  for (const std::int32_t token : tokens.subspan(kept)) {
    if (free_.empty()) free_.push_back(static_cast<std::int32_t>(place_.size()));
    place_.push_back(free_.back());
    free_.pop_back();
    keys_.put(place_.back(), unit_.key.row(token).data());
  }
  held_.assign(tokens.begin(), tokens.end());
}

}  // namespace kvsim
