// SubGen (Zandieh, Han, Mirrokni and Karbasi 2024), Algorithm 1: estimates the sum of e^l v from
// tokens sampled by |v|^2, and the sum of e^l from uniform samples of clusters of keys.
//
// The paper has no budget. Here the sketches share the vectors that the budget allows: s keys with
// their values, and in the rest as many clusters as fit, each of a representative and t samples.
// Every slot counts as a vector of its own, although several may hold the same token. Algorithm 1
// updates with a token before it queries, so the newest token counts only if it is sampled.

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

#include "policies/interface/policy_info.h"
#include "policies/parts/matrix_product_sketch.h"
#include "policies/parts/normalizer_sketch.h"
#include "sim/base/errors.h"

namespace kvsim {
namespace {

constexpr std::int64_t kMostSamples = 1'000'000;  // as many as t

class SubGen final : public Estimator {
 public:
  SubGen(const Params& params, const Context& context) {
    const std::int64_t room = context.budget;
    const std::int64_t cluster_size = 1 + std::int64_t{params.integer("t")};
    const std::int64_t samples = num_samples(params, room, cluster_size);
    if (samples == 0) return;
    product_.emplace(static_cast<std::size_t>(samples), Coins(context.seed, "values"));
    normalizer_.emplace(params.real("delta"), static_cast<std::size_t>(cluster_size - 1),
                        static_cast<std::size_t>((room - 2 * samples) / cluster_size),
                        Coins(context.seed, "keys"));
  }

  void update(const Arrival& arrival) override {
    if (!product_) {
      entries_ = {{.token = arrival.token, .has_value = true, .numerator = 1, .denominator = 1}};
      return;
    }
    normalizer_->update(arrival.token, arrival.key);  // line 4
    product_->update(arrival.token, arrival.value);   // lines 5 and 6
    rebuild_entries(arrival.token);
  }

  std::span<const Entry> entries() const override { return entries_; }

  std::size_t counter_bytes() const override {
    if (!product_) return 0;
    const auto& clusters = normalizer_->clusters();
    std::size_t numbers = product_->samples().size();  // which vector each slot holds
    for (const NormalizerSketch::Cluster& cluster : clusters) numbers += cluster.samples.size() + 1;
    return sizeof(double) + numbers * sizeof(std::int32_t);  // mu; slots, and the size of a cluster
  }

  Amounts amounts() const override {
    if (!product_) return {{"s", 0}, {"t", 0}, {"clusters", 0}, {"far_keys", 0}};
    return {{"s", static_cast<std::int64_t>(product_->num_samples())},
            {"t", static_cast<std::int64_t>(normalizer_->num_samples())},
            {"clusters", std::ssize(normalizer_->clusters())},
            {"far_keys", normalizer_->far_keys()}};
  }

 private:
  // s. A number is taken as it is, or refused; a share takes at most what leaves room for one
  // cluster. 0: there is no room for a sample and a cluster, so there are no sketches, and each
  // step attends to its own token alone. That takes two vectors, even if the room is smaller.
  static std::int64_t num_samples(const Params& params, std::int64_t room,
                                  std::int64_t cluster_size) {
    const std::int64_t asked = params.amount("s", static_cast<int>(room));
    const std::int64_t most = std::max<std::int64_t>(0, (room - cluster_size) / 2);
    if (asked < 1 || asked > kMostSamples) {
      throw UsageError(fmt::format(
          "policy subgen: s comes to {} samples, expected 1 to {}: change s or the budget", asked,
          kMostSamples));
    }
    if (params.is_share("s")) return std::min(asked, most);
    if (asked > most) {
      throw UsageError(fmt::format(
          "policy subgen: s={} samples of two vectors and a cluster of 1 + t = {} keys take {} "
          "vectors, but the budget leaves {}, room for s={} at most: lower s or t, give s as a "
          "share (s=0.25), or raise the budget",
          asked, cluster_size, 2 * asked + cluster_size, room, most));
    }
    return asked;
  }

  // Makes one entry per token that a sketch holds, even if several slots hold it.
  void rebuild_entries(std::int32_t newest) {
    entry_index_.resize(static_cast<std::size_t>(newest) + 1);
    entry_index_.back() = entries_.size();
    entries_.push_back({.token = newest});
    for (Entry& entry : entries_) entry = {.token = entry.token};
    for (const MatrixProductSketch::Sample& sample : product_->samples()) {
      Entry& entry = entry_of(sample.token);
      entry.has_value = true;
      entry.numerator += product_->weight(sample);
    }
    for (const NormalizerSketch::Cluster& cluster : normalizer_->clusters()) {
      for (const std::int32_t token : cluster.samples) {
        entry_of(token).denominator += normalizer_->weight(cluster);
      }
    }
    std::erase_if(entries_, [&](const Entry& entry) {
      return !entry.has_value && entry.denominator == 0 &&
             !normalizer_->is_representative(entry.token);
    });
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      entry_index_[static_cast<std::size_t>(entries_[i].token)] = i;
    }
  }

  Entry& entry_of(std::int32_t token) {
    return entries_[entry_index_[static_cast<std::size_t>(token)]];
  }

  std::optional<MatrixProductSketch> product_;
  std::optional<NormalizerSketch> normalizer_;
  std::vector<Entry> entries_;
  std::vector<std::size_t> entry_index_;  // per token: index of its entry
};

}  // namespace

PolicyInfo subgen_policy() {
  return {
      .name = "subgen",
      .keeps = "keys sampled per cluster and tokens sampled by the norm of their values",
      .source = "SubGen Algorithm 1",
      .sees = "keys and values",
      .differences =
          "the paper has no budget: here every sample counts, also where several are of one "
          "token; a key that finds no room for a cluster of its own joins the nearest, however "
          "far; where s is a number, a budget below 2 s + t + 1 vectors is refused; where it is a "
          "share, it is at most what leaves room for one cluster, and a budget below t + 3 sees "
          "the newest token alone; logits have the trace's scale, Algorithm 1 has none; "
          "samples go by |v|^2 as in the algorithm and its proof, section 2.2 once says |k|^2; "
          "the recent window of the experiments is +protect:first=0, their clustering kcenter",
      .params = {Param::real("delta", 4, 0, 1000,
                             "distance that keys of a cluster may have from its first"),
                 Param::amount(
                     "s", "0.25",
                     "samples of keys with values, two vectors each, at least 1; a share is "
                     "of the vectors that protection leaves"),
                 Param::integer("t", 4, 1, 1'000'000, "samples of keys per cluster")},
      .make_estimator = make_estimator<SubGen>};
}

}  // namespace kvsim
