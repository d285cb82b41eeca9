// Compiled as token_features.cpp is.

#include "policies/learned/token_scorer.h"

#include <algorithm>
#include <cstdint>

namespace kvsim {
namespace {

/// Which columns are of fixed features, and which of the others.
struct Columns {
  std::vector<std::size_t> fixed;
  std::vector<std::size_t> changing;

  explicit Columns(const Scorer& scorer) {
    std::size_t column = 0;
    for (const Feature& feature : scorer.features) {
      for (std::size_t i = 0; i < scorer.columns_of(feature); ++i) {
        (feature.is_fixed() ? fixed : changing).push_back(column++);
      }
    }
  }
};

/// bias + weights . x, whose weights stand in the order of the columns.
class WeightedSum {
 public:
  WeightedSum(const Columns& columns, const float* weights, float bias) : bias_(bias) {
    for (const std::size_t column : columns.fixed) fixed_.push_back(weights[column]);
    for (const std::size_t column : columns.changing) changing_.push_back(weights[column]);
  }

  /// The part of the fixed features.
  float fixed_part(std::span<const float> numbers) const {
    double sum = bias_;
    for (std::size_t i = 0; i < fixed_.size(); ++i) sum += double{fixed_[i]} * numbers[i];
    return static_cast<float>(sum);
  }

  /// Adds the part of the others to each sum.
  void add_changing(const std::vector<std::vector<float>>& columns, std::span<float> sums) const {
    for (std::size_t k = 0; k < changing_.size(); ++k) {
      const float weight = changing_[k];
      const float* const column = columns[k].data();
      float* const sum = sums.data();
      for (std::size_t i = 0; i < sums.size(); ++i) sum[i] += weight * column[i];
    }
  }

 private:
  float bias_;
  std::vector<float> fixed_;
  std::vector<float> changing_;
};

class Linear final : public TokenScorer {
 public:
  Linear(const Scorer& scorer, std::size_t index)
      : TokenScorer(1),
        sum_(Columns(scorer), scorer.weights.data() + index * scorer.num_columns(),
             scorer.bias[index]) {}

  void add(std::span<const float> fixed) override { rows_[0].push_back(sum_.fixed_part(fixed)); }

  void score(const std::vector<std::vector<float>>& changing, std::span<double> scores) override {
    sums_ = rows_[0];
    sum_.add_changing(changing, sums_);
    std::copy(sums_.begin(), sums_.end(), scores.begin());
  }

 private:
  WeightedSum sum_;
  std::vector<float> sums_;
};

class Mlp final : public TokenScorer {
 public:
  Mlp(const Scorer& scorer, std::size_t index)
      : TokenScorer(scorer.units), bias_(scorer.bias[index]) {
    const Columns columns(scorer);
    for (std::size_t unit = index * scorer.units; unit < (index + 1) * scorer.units; ++unit) {
      hidden_.emplace_back(columns, scorer.weights.data() + unit * scorer.num_columns(),
                           scorer.hidden_bias[unit]);
      output_.push_back(scorer.output_weights[unit]);
    }
  }

  void add(std::span<const float> fixed) override {
    for (std::size_t unit = 0; unit < hidden_.size(); ++unit) {
      rows_[unit].push_back(hidden_[unit].fixed_part(fixed));
    }
  }

  void score(const std::vector<std::vector<float>>& changing, std::span<double> scores) override {
    sums_.assign(scores.size(), bias_);
    for (std::size_t unit = 0; unit < hidden_.size(); ++unit) {
      active_ = rows_[unit];
      hidden_[unit].add_changing(changing, active_);
      const float weight = output_[unit];
      const float* const active = active_.data();
      float* const sum = sums_.data();
      for (std::size_t i = 0; i < sums_.size(); ++i) {
        sum[i] += weight * (active[i] > 0 ? active[i] : 0);
      }
    }
    std::copy(sums_.begin(), sums_.end(), scores.begin());
  }

 private:
  float bias_;
  std::vector<WeightedSum> hidden_;
  std::vector<float> output_;
  std::vector<float> sums_;
  std::vector<float> active_;
};

class Trees final : public TokenScorer {
 public:
  Trees(const Scorer& scorer, std::size_t index)
      : TokenScorer(0), depth_(scorer.depth), bias_(scorer.bias[index]) {
    const std::size_t nodes = (std::size_t{1} << static_cast<unsigned>(depth_)) - 1;
    const std::size_t first = index * scorer.units * nodes;
    const std::size_t end = first + scorer.units * nodes;
    std::vector<std::int32_t> places(scorer.num_columns(), -1);
    for (std::size_t i = first; i < end; ++i) {
      places[static_cast<std::size_t>(scorer.split_feature[i])] = 0;
    }
    number(Columns(scorer), places);
    for (std::size_t i = first; i < end; ++i) {
      splits_.push_back(
          {places[static_cast<std::size_t>(scorer.split_feature[i])], scorer.split_threshold[i]});
    }
    const auto leaf =
        scorer.leaf.begin() + static_cast<std::ptrdiff_t>(index * scorer.units * (nodes + 1));
    leaf_.assign(leaf, leaf + static_cast<std::ptrdiff_t>(scorer.units * (nodes + 1)));
    rows_ = SlotRows<float>(fixed_.size());
    numbers_.resize(fixed_.size() + changing_.size());
  }

  void add(std::span<const float> fixed) override {
    for (std::size_t row = 0; row < fixed_.size(); ++row) rows_[row].push_back(fixed[fixed_[row]]);
  }

  void score(const std::vector<std::vector<float>>& changing, std::span<double> scores) override {
    for (std::size_t slot = 0; slot < scores.size(); ++slot) {
      for (std::size_t i = 0; i < fixed_.size(); ++i) numbers_[i] = rows_[i][slot];
      for (std::size_t i = 0; i < changing_.size(); ++i) {
        numbers_[fixed_.size() + i] = changing[changing_[i]][slot];
      }
      scores[slot] = sum_of_leaves();
    }
  }

 private:
  struct Split {
    std::int32_t place;  // of the number, among those that splits read
    float threshold;
  };

  /// Numbers the columns that are not -1, and notes where they come from.
  void number(const Columns& columns, std::vector<std::int32_t>& places) {
    std::int32_t place = 0;
    const auto take = [&](const std::vector<std::size_t>& of, std::vector<std::size_t>& taken) {
      for (std::size_t i = 0; i < of.size(); ++i) {
        if (places[of[i]] < 0) continue;
        places[of[i]] = place++;
        taken.push_back(i);
      }
    };
    take(columns.fixed, fixed_);
    take(columns.changing, changing_);
  }

  double sum_of_leaves() const {
    const std::size_t nodes = (std::size_t{1} << static_cast<unsigned>(depth_)) - 1;
    const Split* splits = splits_.data();
    const float* leaves = leaf_.data();
    double sum = bias_;
    for (; leaves != leaf_.data() + leaf_.size(); splits += nodes, leaves += nodes + 1) {
      std::size_t node = 0;
      for (int level = 0; level < depth_; ++level) {
        const Split& split = splits[node];
        const bool is_left = numbers_[static_cast<std::size_t>(split.place)] <= split.threshold;
        node = 2 * node + (is_left ? 1 : 2);
      }
      sum += leaves[node - nodes];
    }
    return sum;
  }

  int depth_;
  float bias_;
  std::vector<Split> splits_;          // [T, 2^E - 1]
  std::vector<float> leaf_;            // [T, 2^E]
  std::vector<std::size_t> fixed_;     // those of the fixed features that splits read
  std::vector<std::size_t> changing_;  // those of the others
  std::vector<float> numbers_;         // of one token
};

}  // namespace

std::unique_ptr<TokenScorer> make_token_scorer(const Scorer& scorer, std::size_t index) {
  if (scorer.kind == Scorer::Kind::linear) return std::make_unique<Linear>(scorer, index);
  if (scorer.kind == Scorer::Kind::mlp) return std::make_unique<Mlp>(scorer, index);
  return std::make_unique<Trees>(scorer, index);
}

std::size_t floats_per_token(const Scorer& scorer) {
  if (scorer.kind == Scorer::Kind::linear) return 1;
  return scorer.kind == Scorer::Kind::mlp ? scorer.units : Columns(scorer).fixed.size();
}

}  // namespace kvsim
