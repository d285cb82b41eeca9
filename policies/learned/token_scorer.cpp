#include "policies/learned/token_scorer.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "policies/learned/scoring_kernels.h"
#include "policies/parts/lane_sums.h"

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
    const double sum =
        sum_in_lanes(fixed_.size(), [&](std::size_t i) { return double{fixed_[i]} * numbers[i]; });
    return static_cast<float>(bias_ + sum);
  }

  /// The weights of the others.
  const float* changing() const { return changing_.data(); }

 private:
  float bias_;
  std::vector<float> fixed_;
  std::vector<float> changing_;
};

std::span<const float* const> pointers_to(const std::vector<std::vector<float>>& columns,
                                          std::vector<const float*>& pointers) {
  pointers.clear();
  for (const std::vector<float>& column : columns) pointers.push_back(column.data());
  return pointers;
}

class Linear final : public TokenScorer {
 public:
  Linear(const Scorer& scorer, std::size_t index)
      : TokenScorer(1),
        sum_(Columns(scorer), scorer.weights.data() + index * scorer.num_columns(),
             scorer.bias[index]) {}

  void add(std::span<const float> fixed) override { rows_[0].push_back(sum_.fixed_part(fixed)); }

  void score(const std::vector<std::vector<float>>& changing, std::span<double> scores) override {
    sums_ = rows_[0];
    add_weighted(pointers_to(changing, pointers_), sum_.changing(), sums_);
    std::copy(sums_.begin(), sums_.end(), scores.begin());
  }

 private:
  WeightedSum sum_;
  std::vector<float> sums_;
  std::vector<const float*> pointers_;
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
    const auto columns = pointers_to(changing, pointers_);
    for (std::size_t unit = 0; unit < hidden_.size(); ++unit) {
      add_unit(columns, hidden_[unit].changing(), rows_[unit].data(), output_[unit], sums_);
    }
    std::copy(sums_.begin(), sums_.end(), scores.begin());
  }

 private:
  float bias_;
  std::vector<WeightedSum> hidden_;
  std::vector<float> output_;
  std::vector<float> sums_;
  std::vector<const float*> pointers_;
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
      place_.push_back(places[static_cast<std::size_t>(scorer.split_feature[i])]);
      threshold_.push_back(scorer.split_threshold[i]);
    }
    const auto leaf =
        scorer.leaf.begin() + static_cast<std::ptrdiff_t>(index * scorer.units * (nodes + 1));
    leaf_.assign(leaf, leaf + static_cast<std::ptrdiff_t>(scorer.units * (nodes + 1)));
    rows_ = SlotRows<float>(fixed_.size());
    tile_.resize((fixed_.size() + changing_.size()) * kTileTokens, 0);
  }

  void add(std::span<const float> fixed) override {
    for (std::size_t row = 0; row < fixed_.size(); ++row) rows_[row].push_back(fixed[fixed_[row]]);
  }

  void score(const std::vector<std::vector<float>>& changing, std::span<double> scores) override {
    for (std::size_t begin = 0; begin < scores.size(); begin += kTileTokens) {
      const std::size_t count = std::min(kTileTokens, scores.size() - begin);
      float* to = tile_.data();
      const auto take = [&](const std::vector<float>& column) {
        std::copy_n(column.begin() + static_cast<std::ptrdiff_t>(begin), count, to);
        to += kTileTokens;
      };
      for (std::size_t i = 0; i < fixed_.size(); ++i) take(rows_[i]);
      for (const std::size_t column : changing_) take(changing[column]);
      const std::array<float, kTileTokens> sums = sums_of_tile(count);
      std::copy_n(sums.begin(), count, scores.begin() + static_cast<std::ptrdiff_t>(begin));
    }
  }

 private:
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

  std::array<float, kTileTokens> sums_of_tile(std::size_t count) const {
    const std::size_t splits = (std::size_t{1} << static_cast<unsigned>(depth_)) - 1;
    std::array<float, kTileTokens> sums;
    sums.fill(bias_);
    for (std::size_t tree = 0; tree < leaf_.size() / (splits + 1); ++tree) {
      const Tree nodes{.row = place_.data() + tree * splits,
                       .threshold = threshold_.data() + tree * splits,
                       .leaf = leaf_.data() + tree * (splits + 1)};
      if (depth_ <= kDeepestInVectors) {
        add_leaves(nodes, depth_, tile_.data(), sums.data());
      } else {
        for (std::size_t i = 0; i < count; ++i) sums[i] += leaf_of(nodes, splits, i);
      }
    }
    return sums;
  }

  /// Of a deep tree, most of whose splits a token does not meet.
  float leaf_of(const Tree& tree, std::size_t splits, std::size_t token) const {
    std::size_t node = 0;
    while (node < splits) {
      const auto row = static_cast<std::size_t>(tree.row[node]);
      const bool is_left = tile_[row * kTileTokens + token] <= tree.threshold[node];
      node = 2 * node + (is_left ? 1 : 2);
    }
    return tree.leaf[node - splits];
  }

  int depth_;
  float bias_;
  std::vector<std::int32_t> place_;    // [T, 2^E - 1]: among the columns that splits read
  std::vector<float> threshold_;       // [T, 2^E - 1]
  std::vector<float> leaf_;            // [T, 2^E]
  std::vector<std::size_t> fixed_;     // those of the fixed features that splits read
  std::vector<std::size_t> changing_;  // those of the others
  std::vector<float> tile_;            // the columns that splits read, [columns, kTileTokens]
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
