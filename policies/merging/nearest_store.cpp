#include "policies/merging/nearest_store.h"

#include <cmath>
#include <map>
#include <optional>
#include <vector>

#include "policies/merging/merging_store.h"

namespace kvsim {
namespace {

double product(std::span<const float> x, std::span<const float> y) {
  double sum = 0;
  for (std::size_t d = 0; d < x.size(); ++d) sum += double{x[d]} * double{y[d]};
  return sum;
}

class NearestStore final : public MergingStore {
 public:
  NearestStore(const StoreContext& context, const NearestMerge& settings)
      : MergingStore(context), settings_(settings) {}

  void admit(std::span<const float> key, std::span<const float> value) override {
    MergingStore::admit(key, value);
    count_.push_back(1);
  }

  StoredToken at(std::int32_t token) const override {
    StoredToken stored = MergingStore::at(token);
    if (settings_.has_mass) stored.log_weight = std::log(count_[static_cast<std::size_t>(token)]);
    return stored;
  }

  std::size_t bytes() const override {
    return MergingStore::bytes() + num_held_ * weight_bytes(settings_);
  }

 private:
  struct Nearest {
    std::int32_t token;  // that is evicted
    std::int32_t held;
    double cosine;
  };

  void observe(const StoredStep& step) override { num_held_ = step.held.size(); }

  void merge(std::span<const std::int32_t> evicted, const StoredStep& step) override {
    std::vector<Nearest> found;
    double mean = 0;
    for (const std::int32_t token : evicted) {
      found.push_back(nearest(token, step.held));
      mean += found.back().cosine / static_cast<double>(evicted.size());
    }
    threshold_ = threshold_ ? (*threshold_ + mean) / 2 : mean;
    std::map<std::int32_t, std::vector<Nearest>> joining;
    for (const Nearest& each : found) {
      if (settings_.has_threshold && each.cosine < *threshold_) continue;
      joining[each.held].push_back(each);
    }
    for (const auto& [held, tokens] : joining) join(held, tokens);
  }

  Nearest nearest(std::int32_t token, std::span<const std::int32_t> held) {
    const std::span<const float> key = key_row(token);
    const double norm = std::sqrt(product(key, key));
    Nearest best{token, held.front(), -2};
    for (const std::int32_t other : held) {
      const std::span<const float> its_key = key_row(other);
      const double norms = norm * std::sqrt(product(its_key, its_key));
      const double cosine = norms > 0 ? product(key, its_key) / norms : 0;
      if (cosine > best.cosine) best = {token, other, cosine};
    }
    return best;
  }

  void join(std::int32_t held, const std::vector<Nearest>& tokens) {
    double count = number(held);
    double received = attention(held);
    for (const Nearest& each : tokens) {
      count += number(each.token);
      received += attention(each.token);
    }
    const bool by_attention = settings_.weight == MergeWeight::attention && received > 0;
    const bool by_cosine = settings_.weight == MergeWeight::cosine;
    const double whole = by_cosine      ? 1 + static_cast<double>(tokens.size())
                         : by_attention ? received
                                        : count;
    const auto share = [&](std::int32_t token, double cosine) {
      return (by_cosine ? cosine : by_attention ? attention(token) : number(token)) / whole;
    };
    std::vector<double> key(key_row(held).size(), 0);
    std::vector<double> value(value_row(held).size(), 0);
    const auto add = [&](std::int32_t token, double weight) {
      for (std::size_t d = 0; d < key.size(); ++d) key[d] += weight * double{key_row(token)[d]};
      for (std::size_t d = 0; d < value.size(); ++d) {
        value[d] += weight * double{value_row(token)[d]};
      }
    };
    add(held, share(held, 1));
    for (const Nearest& each : tokens) add(each.token, share(each.token, each.cosine));
    for (std::size_t d = 0; d < key.size(); ++d) key_row(held)[d] = static_cast<float>(key[d]);
    for (std::size_t d = 0; d < value.size(); ++d) {
      value_row(held)[d] = static_cast<float>(value[d]);
    }
    number(held) = count;
    attention(held) = received;
  }

  double& number(std::int32_t token) { return count_[static_cast<std::size_t>(token)]; }

  NearestMerge settings_;
  std::vector<double> count_;  // of the tokens that an entry stands for, by text position
  std::optional<double> threshold_;
  std::size_t num_held_ = 0;
};

}  // namespace

std::size_t weight_bytes(const NearestMerge& settings) {
  return settings.has_mass || settings.weight == MergeWeight::count ? 4 : 0;
}

std::unique_ptr<Store> make_nearest_store(const StoreContext& context,
                                          const NearestMerge& settings) {
  return std::make_unique<NearestStore>(context, settings);
}

}  // namespace kvsim
