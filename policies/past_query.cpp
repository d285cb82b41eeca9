#include "policies/past_query.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "policies/parts/erase_slots.h"
#include "policies/parts/row_products.h"

namespace kvsim {
namespace {

/// The products of the heads' queries with all keys, as `weights`.
void set_logits(const Step& step, std::vector<PastQuery>& heads) {
  std::vector<const float*> keys(step.tokens.size());
  for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = step.keys[i].data();
  std::vector<std::vector<double>> queries;
  RowProducts products;
  for (std::size_t head = 0; head < heads.size(); ++head) {
    queries.emplace_back(step.queries[head].begin(), step.queries[head].end());
    heads[head].weights.resize(keys.size());
    products.add(queries.back(), heads[head].weights);
  }
  products.compute(keys);
}

}  // namespace

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

QueryWeights::QueryWeights(const Context& context)
    : scale_(context.scale),
      softcap_(context.logit_softcap),
      window_(context.sliding_window),
      chunk_(context.attention_chunk),
      sinks_(context.sink_logit) {}

void QueryWeights::set(const Step& step, std::vector<PastQuery>& heads) const {
  heads.resize(step.queries.size());
  for (PastQuery& past : heads) past.reset();
  set_logits(step, heads);
  for (std::size_t head = 0; head < heads.size(); ++head) {
    set_weights(head, step, heads[head]);
    heads[head].sum = heads[head].total();
  }
}

void QueryWeights::set_weights(std::size_t head, const Step& step, PastQuery& past) const {
  constexpr double kNone = -std::numeric_limits<double>::infinity();
  std::vector<double>& weights = past.weights;
  for (double& weight : weights) weight *= scale_;
  if (softcap_) {
    for (double& logit : weights) logit = *softcap_ * std::tanh(logit / *softcap_);
  }
  if (!step.selected.empty() || window_ || chunk_) {
    for (std::size_t i = 0; i < step.tokens.size(); ++i) {
      const bool is_selected =
          step.selected.empty() || std::ranges::binary_search(step.selected, step.tokens[i]);
      if (!is_selected || !is_visible(step.tokens[i], step.index)) weights[i] = kNone;
    }
  }
  const double sink = sinks_.empty() ? kNone : double{sinks_[head]};
  const double most = std::max(sink, *std::max_element(weights.begin(), weights.end()));
  // Without a sink a step that selects nothing of the cache has no weights.
  for (double& weight : weights) weight = std::isinf(most) ? 0 : std::exp(weight - most);
  past.sink = std::isinf(most) ? 0 : std::exp(sink - most);
}

bool QueryWeights::is_visible(int token, int step) const {
  const bool in_window = !window_ || step - token < *window_;
  return in_window && (!chunk_ || token / *chunk_ == step / *chunk_);
}

}  // namespace kvsim
