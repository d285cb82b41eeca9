#include "sim/outputs/rest_entry.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "sim/base/errors.h"

namespace kvsim {

RestEntry::RestEntry(const Unit& unit)
    : unit_(unit),
      key_sum_(Eigen::VectorXd::Zero(unit.key.cols())),
      value_sum_(Eigen::VectorXd::Zero(unit.value.cols())) {
  if (unit.sliding_window) {
    throw UsageError(
        fmt::format("sequence '{}', layer {}: expected no sliding window with +rest, since evicted "
                    "tokens would leave it one by one, found one of {} tokens; leave +rest out",
                    unit.name.sequence, unit.name.layer, *unit.sliding_window));
  }
  if (unit.selected) {
    throw UsageError(
        fmt::format("sequence '{}', layer {}: expected a layer that sees all tokens with +rest, "
                    "since evicted ones have one entry together, found one that selects; leave "
                    "+rest out",
                    unit.name.sequence, unit.name.layer));
  }
  if (unit.attention_chunk) {
    throw UsageError(fmt::format(
        "sequence '{}', layer {}: expected no attention_chunk with +rest, since a chunk "
        "hides evicted tokens when it ends, found one of {} tokens; leave +rest out",
        unit.name.sequence, unit.name.layer, *unit.attention_chunk));
  }
}

void RestEntry::update(int step, std::span<const std::int32_t> tokens) {
  const std::size_t num_evicted = static_cast<std::size_t>(step) + 1 - tokens.size();
  if (num_evicted > static_cast<std::size_t>(num_tokens_)) {
    std::size_t slot = 0;
    const auto compare = [&](std::int32_t token) {
      if (slot < tokens.size() && tokens[slot] == token) {
        ++slot;
      } else {
        add(token);
      }
    };
    for (const std::int32_t token : held_) compare(token);
    for (int token = last_step_ + 1; token <= step; ++token) compare(token);
  }
  held_.assign(tokens.begin(), tokens.end());
  last_step_ = step;
}

void RestEntry::add(int token) {
  key_sum_ += unit_.key.row(token).transpose().cast<double>();
  value_sum_ += unit_.value.row(token).transpose().cast<double>();
  ++num_tokens_;
}

double RestEntry::logit(const float* query) const {
  if (num_tokens_ == 0) return -std::numeric_limits<double>::infinity();
  const Eigen::Map<const Eigen::VectorXf> q(query, key_sum_.size());
  double logit = unit_.scale * q.cast<double>().dot(key_sum_) / num_tokens_;
  if (const auto cap = unit_.logit_softcap) logit = *cap * std::tanh(logit / *cap);
  return logit + std::log(num_tokens_);
}

}  // namespace kvsim
