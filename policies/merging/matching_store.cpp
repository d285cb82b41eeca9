#include "policies/merging/matching_store.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <optional>
#include <vector>

#include "policies/merging/merging_store.h"
#include "policies/parts/ridge.h"

namespace kvsim {
namespace {

constexpr double kLeastFactor = 1e-12;
constexpr double kLeastSquare = 1e-100;  // no query attends to what is held

class MatchingStore final : public MergingStore {
 public:
  MatchingStore(const StoreContext& context, const AttentionMatch& settings)
      : MergingStore(context),
        settings_(settings),
        scale_(context.scale),
        softcap_(context.logit_softcap) {}

  void admit(std::span<const float> key, std::span<const float> value) override {
    MergingStore::admit(key, value);
    bias_.push_back(0);
  }

  StoredToken at(std::int32_t token) const override {
    StoredToken stored = MergingStore::at(token);
    stored.log_weight = bias_[static_cast<std::size_t>(token)];
    return stored;
  }

  std::size_t bytes() const override {
    return MergingStore::bytes() + (settings_.has_mass ? 4 * num_held_ : 0);
  }

 private:
  struct PastQueries {
    int step;
    std::vector<std::vector<float>> heads;  // [query heads][head_dim]
  };

  void observe(const StoredStep& step) override {
    num_held_ = step.held.size();
    PastQueries& newest = queries_.emplace_back(PastQueries{step.index, {}});
    for (const auto& query : step.queries) newest.heads.emplace_back(query.begin(), query.end());
    if (std::ssize(queries_) > settings_.queries) queries_.pop_front();
  }

  void merge(std::span<const std::int32_t> evicted, const StoredStep& step) override {
    const std::span<const std::int32_t> held = step.held;
    const Rows before = attention_to(held, evicted);
    Rows after = before;
    for (auto& row : after) row.resize(held.size());
    if (mean_square(after) < kLeastSquare) return;
    if (settings_.has_mass) {
      const std::vector<double> factor =
          factors_to_one(after, settings_.ridge * mean_square(after));
      for (std::size_t slot = 0; slot < held.size(); ++slot) {
        const double kept = std::max(factor[slot], kLeastFactor);
        for (auto& row : after) row[slot] *= kept;
        bias_[static_cast<std::size_t>(held[slot])] += std::log(kept);
      }
    }
    for (auto& row : after) normalize(row);
    move_values(held, evicted, before, after);
  }

  // The softmax of each query over those of `held` and then `evicted` that it saw; all 0: of none.
  Rows attention_to(std::span<const std::int32_t> held, std::span<const std::int32_t> evicted) {
    std::vector<std::int32_t> tokens(held.begin(), held.end());
    tokens.insert(tokens.end(), evicted.begin(), evicted.end());
    Rows rows;
    for (const PastQueries& past : queries_) {
      for (const auto& query : past.heads) {
        std::vector<double>& row = rows.emplace_back();
        double largest = -std::numeric_limits<double>::infinity();
        for (const std::int32_t token : tokens) {
          row.push_back(token > past.step ? -std::numeric_limits<double>::infinity()
                                          : logit(query, token));
          largest = std::max(largest, row.back());
        }
        for (double& weight : row) weight = std::isinf(weight) ? 0 : std::exp(weight - largest);
        normalize(row);
      }
    }
    return rows;
  }

  double logit(const std::vector<float>& query, std::int32_t token) {
    const std::span<const float> key = key_row(token);
    double product = 0;
    for (std::size_t d = 0; d < query.size(); ++d) product += double{query[d]} * double{key[d]};
    product *= scale_;
    if (softcap_) product = *softcap_ * std::tanh(product / *softcap_);
    return product + bias_[static_cast<std::size_t>(token)];
  }

  static void normalize(std::vector<double>& row) {
    double sum = 0;
    for (const double weight : row) sum += weight;
    if (sum > 0) {
      for (double& weight : row) weight /= sum;
    }
  }

  void move_values(std::span<const std::int32_t> held, std::span<const std::int32_t> evicted,
                   const Rows& before, const Rows& after) {
    const std::size_t dim = static_cast<std::size_t>(shape().value_dim);
    Rows missing(after.size(), std::vector<double>(dim, 0));  // y - x v
    const auto add = [&](std::size_t r, double weight, std::int32_t token) {
      const std::span<const float> value = value_row(token);
      for (std::size_t d = 0; d < dim; ++d) missing[r][d] += weight * double{value[d]};
    };
    for (std::size_t r = 0; r < after.size(); ++r) {
      for (std::size_t slot = 0; slot < held.size(); ++slot) {
        add(r, before[r][slot] - after[r][slot], held[slot]);
      }
      for (std::size_t i = 0; i < evicted.size(); ++i) {
        add(r, before[r][held.size() + i], evicted[i]);
      }
    }
    solve_dual(after, settings_.ridge * mean_square(after), missing);
    for (std::size_t slot = 0; slot < held.size(); ++slot) {
      const std::span<float> value = value_row(held[slot]);
      for (std::size_t d = 0; d < dim; ++d) {
        double change = 0;
        for (std::size_t r = 0; r < after.size(); ++r) change += after[r][slot] * missing[r][d];
        value[d] += static_cast<float>(change);
      }
    }
  }

  AttentionMatch settings_;
  double scale_;
  std::optional<double> softcap_;
  std::deque<PastQueries> queries_;  // of the last steps
  std::vector<double> bias_;         // by text position
  std::size_t num_held_ = 0;
};

}  // namespace

std::unique_ptr<Store> make_matching_store(const StoreContext& context,
                                           const AttentionMatch& settings) {
  return std::make_unique<MatchingStore>(context, settings);
}

}  // namespace kvsim
