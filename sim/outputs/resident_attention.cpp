#include "sim/outputs/resident_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace kvsim {
namespace {

void set_row(Matrix& rows, std::int32_t place, const float* vector, Eigen::Index dim) {
  if (place >= rows.rows()) {
    const Eigen::Index known = rows.rows();
    rows.conservativeResize(std::max<Eigen::Index>(kBlockSteps, 2 * known), dim);
  }
  rows.row(place) = Eigen::Map<const Eigen::RowVectorXf>(vector, dim);
}

}  // namespace

ResidentAttention::ResidentAttention(const ReplayedUnit& unit, const Rules& rules)
    : replayed_(unit),
      unit_(unit.unit()),
      sees_values_(rules.sees_values),
      keys_(static_cast<int>(unit_.key.cols()), unit_.scale),
      key_(0, unit_.key.cols()),
      value_(0, unit_.value.cols()),
      moved_(static_cast<std::size_t>(unit_.key.cols())) {
  if (rules.slot_positions) rotation_.emplace(unit_);
}

void ResidentAttention::attend(int head, int row, std::span<const std::int32_t> tokens) {
  const int step = replayed_.block().first_step + row;
  hold(tokens);
  const auto visible = std::lower_bound(tokens.begin(), tokens.end(), first_visible(unit_, step));
  const auto num_hidden = static_cast<std::size_t>(visible - tokens.begin());
  if (rotation_) move_keys(tokens, num_hidden);
  const std::size_t num_places = place_.size() + free_.size();
  logit_by_place_.resize((num_places + kBlockSteps - 1) / kBlockSteps * kBlockSteps);
  keys_.multiply(replayed_.query(head, step), 1, static_cast<int>(logit_by_place_.size()),
                 logit_by_place_.data());
  logit_.clear();
  for (std::size_t slot = num_hidden; slot < tokens.size(); ++slot) {
    logit_.push_back(logit_by_place_[place_[slot]]);
  }
  if (unit_.logit_softcap) {
    const float cap = *unit_.logit_softcap;
    Eigen::Map<Eigen::ArrayXf> logit(logit_.data(), std::ssize(logit_));
    logit = cap * (logit / cap).tanh();
  }
  if (unit_.selected) hide_unselected(step, tokens.subspan(num_hidden));
  weight_.assign(tokens.size(), 0);
  weight_sum_ = 0;
  if (std::ranges::all_of(logit_, [](float x) { return std::isinf(x); })) return;
  float offset = unit_.sink(head);
  weight_sum_ = exponentials(logit_, weight_.data() + num_hidden, offset);
  weight_sum_ += sink_weight(unit_, head, offset);
}

/// Gives minus infinity to those of `tokens`, parallel to logit_, that the step does not select.
void ResidentAttention::hide_unselected(int step, std::span<const std::int32_t> tokens) {
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (!unit_.selected->contains(step, tokens[i])) {
      logit_[i] = -std::numeric_limits<float>::infinity();
    }
  }
}

// Both lists are ascending, and evicted tokens do not return.
void ResidentAttention::hold(std::span<const std::int32_t> tokens) {
  if (std::equal(tokens.begin(), tokens.end(), held_.begin(), held_.end())) return;
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
    put(place_.back(), token);
  }
  held_.assign(tokens.begin(), tokens.end());
}

void ResidentAttention::put(std::int32_t place, std::int32_t token) {
  const float* key = replayed_.key(token);
  keys_.put(place, key);
  if (rotation_) {
    distance_.resize(std::max(distance_.size(), static_cast<std::size_t>(place) + 1));
    distance_[place] = 0;
  }
  if (!keeps_vectors()) return;
  set_row(key_, place, key, key_.cols());
  if (sees_values_) set_row(value_, place, replayed_.value(token), value_.cols());
}

const float* ResidentAttention::key(std::size_t slot) const {
  return keeps_vectors() ? key_.row(place_[slot]).data() : unit_.key.row(held_[slot]).data();
}

// In slots the newest token is as far from an older one as there are tokens held between them: the
// older one moves by the number of tokens between them that have left.
void ResidentAttention::move_keys(std::span<const std::int32_t> tokens, std::size_t first_slot) {
  const auto newest = static_cast<int>(tokens.size()) - 1;
  for (std::size_t slot = first_slot; slot < tokens.size(); ++slot) {
    const int distance = tokens.back() - tokens[slot] - (newest - static_cast<int>(slot));
    int& moved_by = distance_[place_[slot]];
    if (distance == moved_by) continue;
    moved_by = distance;
    rotation_->turn(key(slot), distance, moved_.data());
    keys_.put(place_[slot], moved_.data());
  }
}

}  // namespace kvsim
