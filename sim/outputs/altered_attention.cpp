#include "sim/outputs/altered_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/outputs/output_difference.h"
#include "traces/unit_seed.h"

namespace kvsim {

AlteredAttention::AlteredAttention(ReplayedUnit& unit, const Rules& rules, int first_stored,
                                   std::uint64_t seed)
    : MeasuredAttention(unit), first_stored_(first_stored) {
  unit.require_outputs();
  if (rules.stored) stored_ = &unit.stored(*rules.stored);
  if (rules.slot_positions) rotation_.emplace(unit_);
  if (rules.rest) rest_.emplace(unit_);
  if (rules.store) cache_.emplace(unit_, rules, first_stored, unit_seed(seed, unit_.name));
}

void AlteredAttention::attend(int head, int row, std::span<const std::int32_t> tokens) {
  if (cache_) cache_->begin(replayed_.block().first_step + row, tokens);
  begin(head, row, cache_ ? cache_->attended() : tokens);
  double rest_logit = -std::numeric_limits<double>::infinity();
  if (rest_) {
    rest_->update(step_, tokens);
    rest_logit = rest_->logit(unit_.query[head].row(step_).data());
  }
  const float least_offset =
      std::max({unit_.sink(head), static_cast<float>(rest_logit), weigh_evicted(head)});
  const auto [offset, token_sum] = weigh(head, tokens, least_offset);
  const bool has_rest = rest_ && rest_->num_tokens() > 0;
  const double rest_weight = has_rest ? std::exp(rest_logit - offset) : 0;
  double evicted_sum = 0;
  for (float& weight : evicted_weight_) {
    weight = std::isinf(weight) ? 0.0F : std::exp(weight - static_cast<float>(offset));
    evicted_sum += weight;
  }
  weight_sum_ = token_sum + rest_weight + evicted_sum + sink_weight(unit_, head, offset);
  if (cache_) cache_->add_attention(weight_, weight_sum_);
  if (!takes_error()) return;
  sum_.setZero(unit_.value.cols());
  if (has_rest) sum_ += rest_weight * rest_->value();
  for (std::size_t slot = 0; slot < tokens.size(); ++slot) {
    add_value(weight_[slot], value_of(tokens[slot]));
  }
  for (std::size_t i = 0; i < evicted_weight_.size(); ++i) {
    add_value(evicted_weight_[i], value_of(cache_->evicted()[i]));
  }
  output_ = weight_sum_ > 0 ? Eigen::VectorXd(sum_ / weight_sum_) : sum_;
}

// Sets the logits of the evicted tokens that the store keeps. Returns the largest.
float AlteredAttention::weigh_evicted(int head) {
  float largest = -std::numeric_limits<float>::infinity();
  evicted_weight_.clear();
  if (!cache_) return largest;
  for (const std::int32_t token : cache_->evicted()) {
    const bool is_seen = sees(token);
    evicted_weight_.push_back(is_seen ? stored_logit(head, token, 0)
                                      : -std::numeric_limits<float>::infinity());
    largest = std::max(largest, evicted_weight_.back());
  }
  return largest;
}

void AlteredAttention::settle(std::span<const std::int32_t> held, bool is_whole) {
  if (cache_) cache_->settle(held, is_whole);
}

std::optional<std::size_t> AlteredAttention::peak_bytes() const {
  return cache_ ? std::optional(cache_->peak_bytes()) : std::nullopt;
}

void AlteredAttention::estimate(int head, int row, std::span<const Entry> entries) {
  entry_tokens_.clear();
  value_tokens_.clear();
  for (const Entry& entry : entries) {
    entry_tokens_.push_back(entry.token);
    if (entry.has_value) value_tokens_.push_back(entry.token);
  }
  begin(head, row, value_tokens_);
  if (!takes_error()) return;
  weight_.resize(entries.size());
  float largest = unit_.sink(head);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    weight_[i] = logit(head, entry_tokens_, i);
    // Entries without weight must not set the offset: the others might underflow.
    if (entries[i].denominator > 0 || entries[i].numerator > 0) {
      largest = std::max(largest, weight_[i]);
    }
  }
  double normalizer = sink_weight(unit_, head, largest);
  sum_.setZero(unit_.value.cols());
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const Entry& entry = entries[i];
    if (std::isinf(weight_[i]) || weight_[i] > largest) continue;
    // In fp64: value samples can have much larger logits than all key samples.
    const double weight = std::exp(double{weight_[i]} - double{largest});
    normalizer += entry.denominator * weight;
    if (entry.has_value) add_value(entry.numerator * weight, value_of(entry.token));
  }
  // The step may see none of the samples.
  output_ = normalizer > 0 ? Eigen::VectorXd(sum_ / normalizer) : sum_;
}

Measurement AlteredAttention::measure(OutputDeltas& deltas) {
  Measurement result = measure_recall();
  if (!takes_error()) return result;
  const Eigen::VectorXd difference = full_->output.row(row_).transpose() - output_;
  set_error(difference.norm(), replayed_.block(), head_, row_, result);
  deltas.set(head_, row_, difference);
  return result;
}

// Computes exp(logit - offset) of `tokens`, the offset being the largest logit or `least_offset`.
AlteredAttention::Weights AlteredAttention::weigh(int head, std::span<const std::int32_t> tokens,
                                                  float least_offset) {
  weight_.resize(tokens.size());
  float largest = least_offset;
  for (std::size_t slot = 0; slot < tokens.size(); ++slot) {
    weight_[slot] = logit(head, tokens, slot);
    largest = std::max(largest, weight_[slot]);
  }
  double sum = 0;
  for (float& weight : weight_) {
    // If all logits are minus infinity, logit - largest is NaN.
    weight = std::isinf(weight) ? 0.0F : std::exp(weight - largest);
    sum += weight;
  }
  return {largest, sum};
}

float AlteredAttention::logit(int head, std::span<const std::int32_t> tokens, std::size_t slot) {
  const std::int32_t token = tokens[slot];
  if (!sees(token)) return -std::numeric_limits<float>::infinity();
  const int shift = step_ - token - static_cast<int>(tokens.size() - 1 - slot);
  if (cache_ && cache_->is_stored(token)) return stored_logit(head, token, rotation_ ? shift : 0);
  if (!rotation_ || shift == 0) {
    return (is_stored(token) ? stored_->block.heads[head] : *full_).logit(row_, token);
  }
  const Matrix& key = (is_stored(token) ? stored_->unit : unit_).key;
  return capped(unit_.scale * rotation_->product(unit_.query[head].row(step_).data(),
                                                 key.row(token).data(), shift));
}

// Of a token as cache_ has it, whose key is moved by `shift` positions.
float AlteredAttention::stored_logit(int head, std::int32_t token, int shift) {
  const StoredToken stored = cache_->at(token);
  const float* query = unit_.query[head].row(step_).data();
  const auto dim = unit_.key.cols();
  const float product = shift == 0
                            ? Eigen::Map<const Eigen::VectorXf>(query, dim)
                                  .dot(Eigen::Map<const Eigen::VectorXf>(stored.key.data(), dim))
                            : rotation_->product(query, stored.key.data(), shift);
  return capped(unit_.scale * product) + static_cast<float>(stored.log_weight);
}

float AlteredAttention::capped(float product) const {
  const auto cap = unit_.logit_softcap;
  return cap ? *cap * std::tanh(product / *cap) : product;
}

bool AlteredAttention::is_stored(std::int32_t token) const {
  return stored_ != nullptr && token != step_ && step_ >= first_stored_;
}

const float* AlteredAttention::value_of(std::int32_t token) const {
  if (cache_ && cache_->is_stored(token)) return cache_->at(token).value.data();
  return (is_stored(token) ? stored_->unit : unit_).value.row(token).data();
}

}  // namespace kvsim
