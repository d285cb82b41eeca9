#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/support/reference_replay.h"

namespace kvsim::test_support {
namespace {

constexpr double kHidden = -std::numeric_limits<double>::infinity();

double logit_of(const Unit& unit, int head, int t, int j) {
  if (unit.sliding_window && t - j >= *unit.sliding_window) return kHidden;
  if (unit.selected && !unit.selected->contains(t, j)) return kHidden;
  if (unit.attention_chunk && t / *unit.attention_chunk != j / *unit.attention_chunk) {
    return kHidden;
  }
  double product = 0;
  for (Eigen::Index i = 0; i < unit.key.cols(); ++i) {
    product += double{unit.query[static_cast<std::size_t>(head)](t, i)} * double{unit.key(j, i)};
  }
  const double logit = double{unit.scale} * product;
  if (!unit.logit_softcap) return logit;
  const double cap = *unit.logit_softcap;
  return cap * std::tanh(logit / cap);
}

}  // namespace

std::vector<double> softmax(const std::vector<double>& logit, const std::vector<int>& tokens,
                            double sink) {
  double highest = sink;
  for (const int j : tokens) highest = std::max(highest, logit[static_cast<std::size_t>(j)]);
  if (highest == kHidden) return std::vector<double>(tokens.size(), 0);  // it selects none of them
  std::vector<double> weight;
  double sum = std::exp(sink - highest);
  for (const int j : tokens) {
    weight.push_back(std::exp(logit[static_cast<std::size_t>(j)] - highest));
    sum += weight.back();
  }
  for (double& w : weight) w /= sum;
  return weight;
}

std::vector<double> weighted_value(const Unit& unit, const std::vector<int>& tokens,
                                   const std::vector<double>& weight) {
  std::vector<double> sum(static_cast<std::size_t>(unit.value.cols()));
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    for (std::size_t c = 0; c < sum.size(); ++c) {
      sum[c] += weight[i] * double{unit.value(tokens[i], static_cast<Eigen::Index>(c))};
    }
  }
  return sum;
}

double norm(const std::vector<double>& vector) {
  double sum = 0;
  for (const double x : vector) sum += x * x;
  return std::sqrt(sum);
}

ReferenceAttention::ReferenceAttention(const Unit& unit, int head) : sink(double{unit.sink(head)}) {
  std::vector<int> visible;
  for (int t = 0; t < unit.num_tokens(); ++t) {
    visible.push_back(t);
    std::vector<double> row;
    for (const int j : visible) row.push_back(logit_of(unit, head, t, j));
    full.push_back(softmax(row, visible, sink));
    output.push_back(weighted_value(unit, visible, full.back()));
    logit.push_back(std::move(row));
  }
}

ReferenceUnit::ReferenceUnit(const Unit& recorded) : unit(recorded) {
  for (int h = 0; h < unit.group_size(); ++h) heads.emplace_back(unit, h);
  double longest = 0;
  for (int t = 0; t < unit.num_tokens(); ++t) {
    longest = std::max(longest, norm(weighted_value(unit, {t}, {1.0})));
    longest_value.push_back(longest);
  }
}

}  // namespace kvsim::test_support
