// No token is lost: what the policy evicts stays at few bits (MiKV: Yang et al., "No Token Left
// Behind", 2024). A token that has left the cache of many bits never returns to it.
//
// Channels of keys with outliers make the ranges of few bits wide. They are multiplied by
// b = sqrt(max |query| / max |key|), channel by channel, before a key is quantised, and queries are
// divided by it (section 3.2, "channel balancer"); here restored keys are divided by it, which
// gives the same logits.

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "policies/interface/policy_info.h"
#include "policies/interface/store_combinator.h"
#include "policies/parts/half.h"
#include "policies/parts/min_max_codes.h"

namespace kvsim {
namespace {

constexpr int kAsRecorded = 16;  // bits

struct MikvSettings {
  int high = 8;
  int low = 2;
  int group = 64;
  bool balances = true;
};

/// The bytes of a token at so many bits.
std::size_t bytes_at(const VectorShape& shape, int bits, int group) {
  if (bits == kAsRecorded) return shape.bytes();
  const auto dim = static_cast<std::size_t>(shape.head_dim);
  const auto value_dim = static_cast<std::size_t>(shape.value_dim);
  return bytes_of_min_max(dim, group, bits, shape.key_bytes) +
         bytes_of_min_max(value_dim, group, bits, shape.value_bytes);
}

std::size_t balancer_bytes(const VectorShape& shape) {
  return static_cast<std::size_t>(shape.head_dim) * static_cast<std::size_t>(shape.key_bytes);
}

class MikvStore final : public Store {
 public:
  MikvStore(const StoreContext& context, const MikvSettings& settings)
      : Store(context), settings_(settings) {
    largest_query_.resize(static_cast<std::size_t>(shape().head_dim));
    largest_key_.resize(largest_query_.size());
  }

  void settle(const StoredStep& step) override {
    if (settings_.balances && balancer_.empty()) measure(step);
    if (step.is_whole) {
      bytes_ = step.held.size() * shape().bytes();
      return;
    }
    std::vector<std::int32_t> left;
    std::set_difference(step.attended.begin(), step.attended.end(), step.held.begin(),
                        step.held.end(), std::back_inserter(left));
    if (!left.empty() && settings_.balances && balancer_.empty()) balance();
    for (const std::int32_t token : left) quantise_low(token);
    num_evicted_ += left.size();
    if (settings_.high != kAsRecorded) {
      const auto first = std::lower_bound(step.held.begin(), step.held.end(), high_end_);
      for (auto token = first; token != step.held.end(); ++token) quantise_high(*token);
    }
    high_end_ = step.index + 1;
    bytes_ = step.held.size() * bytes_at(shape(), settings_.high, settings_.group) +
             num_evicted_ * bytes_at(shape(), settings_.low, settings_.group) +
             (balancer_.empty() ? 0 : balancer_bytes(shape()));
  }

  std::size_t bytes() const override { return bytes_; }

 private:
  void measure(const StoredStep& step) {
    const auto raise = [](std::vector<float>& largest, std::span<const float> vector) {
      for (std::size_t c = 0; c < vector.size(); ++c) {
        largest[c] = std::max(largest[c], std::fabs(vector[c]));
      }
    };
    for (const std::span<const float> query : step.queries) raise(largest_query_, query);
    raise(largest_key_, key_row(step.index));  // as recorded until its step has ended
  }

  void balance() {
    for (std::size_t c = 0; c < largest_key_.size(); ++c) {
      const float factor = std::sqrt(largest_query_[c] / largest_key_[c]);
      const float stored = shape().key_bytes == 2 ? round_to_half(factor) : factor;
      // Channels in which all keys or queries are 0 have nothing to balance.
      balancer_.push_back(std::isfinite(factor) && stored > 0 ? stored : 1.F);
    }
  }

  void quantise_low(std::int32_t token) {
    const std::span<float> key = key_row(token);
    for (std::size_t c = 0; c < balancer_.size(); ++c) key[c] *= balancer_[c];
    round_min_max(key, settings_.group, settings_.low, shape().key_bytes);
    for (std::size_t c = 0; c < balancer_.size(); ++c) key[c] /= balancer_[c];
    round_min_max(value_row(token), settings_.group, settings_.low, shape().value_bytes);
  }

  void quantise_high(std::int32_t token) {
    round_min_max(key_row(token), settings_.group, settings_.high, shape().key_bytes);
    round_min_max(value_row(token), settings_.group, settings_.high, shape().value_bytes);
  }

  MikvSettings settings_;
  std::vector<float> largest_query_, largest_key_;  // per channel, of all steps so far
  std::vector<float> balancer_;                     // empty: none, or nothing has been evicted yet
  std::int32_t high_end_ = 0;                       // tokens before it are quantised
  std::size_t num_evicted_ = 0;
  std::size_t bytes_ = 0;
};

class Mikv final : public StoreKind {
 public:
  explicit Mikv(const MikvSettings& settings) : settings_(settings) {}

  std::unique_ptr<Store> make(const StoreContext& context) const override {
    return std::make_unique<MikvStore>(context, settings_);
  }

  std::size_t bytes(const VectorShape& shape, int tokens, int length) const override {
    const std::size_t high = bytes_at(shape, settings_.high, settings_.group);
    const std::size_t low = bytes_at(shape, settings_.low, settings_.group);
    const auto held = static_cast<std::size_t>(tokens);
    const auto all = static_cast<std::size_t>(std::max(tokens, length));
    // In small groups the scales of few bits can take more than a token as recorded. The largest
    // cache on the way to so many tokens counts then.
    return (low > high ? all * low : held * high + (all - held) * low) +
           (settings_.balances ? balancer_bytes(shape) : 0);
  }

  bool keeps_evicted() const override { return true; }

 private:
  MikvSettings settings_;
};

void store_as_mikv(Rules& rules, const Params& params, const Context&) {
  rules.store =
      std::make_shared<Mikv>(MikvSettings{.high = params.integer("high"),
                                          .low = params.integer("low"),
                                          .group = params.integer("group"),
                                          .balances = params.choice("balancer") == "yes"});
}

std::string why_not_mikv(const PolicyInfo& policy, const Rules& rules, const Params& params) {
  if (params.integer("low") > params.integer("high")) {
    return "low must not be above high, as no token returns to more bits";
  }
  if (rules.slot_positions) {
    return "with positions=slot the keys of evicted tokens have no position";
  }
  if (rules.scope == Scope::model) {
    return "what leaves a layer leaves all later ones, and does not stay there at few bits";
  }
  return why_not_stored(policy, rules);
}

}  // namespace

CombinatorInfo mikv_combinator() {
  return {
      .name = "mikv",
      .does = "evicted tokens stay, and are attended to, at fewer bits than the others",
      .source = "Yang et al. 2024 (MiKV, \"No Token Left Behind\"), section 3",
      .differences =
          "the program is not public and was not run. The balancer is of the steps up to the "
          "first eviction, in prefill mode the prompt's as in the paper, and of the keys at low "
          "bits alone; a token that leaves later is quantised anew from its high bits. The size "
          "of a group is that of +quant",
      .params = {Param::integer("high", 8, 1, kAsRecorded,
                                "bits per number of what the policy keeps; 16: as recorded"),
                 Param::integer("low", 2, 1, 8, "bits per number of what it evicts"),
                 Param::integer("group", 64, 1, 1'000'000,
                                "numbers of a vector that share a least number and a step"),
                 Param::choice("balancer", {"yes", "no"},
                               "whether channels of keys are balanced against those of queries "
                               "before they are quantised at low bits")},
      .change = store_as_mikv,
      .why_not = why_not_mikv};
}

}  // namespace kvsim
