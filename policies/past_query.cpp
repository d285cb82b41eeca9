#include "policies/past_query.h"

#include <algorithm>
#include <numeric>

#include "policies/parts/erase_slots.h"

namespace kvsim {

void PastQuery::reset() {
  most = 1;
  second = 0;
  heaviest = kNoSlot;
  is_whole = true;
  output.clear();
  ratios.clear();
}

double PastQuery::total() const { return std::accumulate(weights.begin(), weights.end(), sink); }

void PastQuery::set_error(bool has_error) {
  error.assign(output.size(), 0);
  if (has_error) {
    for (std::size_t d = 0; d < error.size(); ++d) error[d] = output[d] - given[d];
  }
  of_output = output_products(output, has_error ? error.data() : nullptr);
}

void PastQuery::take_out(std::size_t slot, std::span<const double> value, bool has_error) {
  if (output.empty()) return;
  if (slot >= weights.size()) {  // it had not seen this one
    ratios.push_back(0);
    return;
  }
  const double weight = weights[slot];
  if (weight > sum / 2) {  // rounding would be much of what is left
    output.clear();
    ratios.clear();
    return;
  }
  sum -= weight;
  const double ratio = weight / std::max(sum, kLeastWeight);
  ratios.push_back(ratio);
  of_output = move_output(ratio, value, output.data(), has_error ? error.data() : nullptr);
}

void PastQuery::erase(const std::vector<std::size_t>& left) {
  is_whole = false;
  if (heaviest != kNoSlot) {
    const auto at = std::ranges::lower_bound(left, heaviest);
    const bool has_left = at != left.end() && *at == heaviest;
    heaviest = has_left ? kNoSlot : heaviest - static_cast<std::size_t>(at - left.begin());
  }
  for (auto* list : {&weights, &along_output, &along_error}) erase_slots(left, *list);
}

std::size_t PastQuery::slot_of_most() {
  const double half = sum / 2;
  if (most <= half || weights.empty()) return weights.size();
  if (heaviest == kNoSlot) find_heaviest();
  if (most <= half) return weights.size();
  if (second <= half) return heaviest;
  // Rounding of the sum can make it two.
  const auto first = std::ranges::find_if(weights, [&](double weight) { return weight > half; });
  return static_cast<std::size_t>(first - weights.begin());
}

double PastQuery::change_without(std::size_t slot, std::span<const float> value) const {
  double square = 0;
  double along = 0;
  for (std::size_t d = 0; d < output.size(); ++d) {
    const double difference = static_cast<double>(value[d]) - output[d];
    square += difference * difference;
    along += error[d] * difference;
  }
  const double ratio = weights[slot] / std::max(sum - weights[slot], kLeastWeight);
  return ratio * (ratio * square - 2 * along);
}

void PastQuery::find_heaviest() {
  const auto largest = std::ranges::max_element(weights);
  heaviest = static_cast<std::size_t>(largest - weights.begin());
  most = *largest;
  second = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (i != heaviest) second = std::max(second, weights[i]);
  }
}

}  // namespace kvsim
