#include "oracle/eviction_assignment.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

namespace kvsim {
namespace {

constexpr int kNone = -1;
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int kTokensPerTest = 64;

// More than what rounding to float and adding two floats can lose, relative to either.
constexpr double kFloatMargin = 0x1p-21;

float float_above(double x) {
  return std::isinf(x) ? static_cast<float>(x) : static_cast<float>(x + kFloatMargin * std::abs(x));
}

float float_below(double x) { return static_cast<float>(x - kFloatMargin * std::abs(x)); }

/// Whether some cost + distance may be below its slack. Free of branches, for vectorisation.
bool may_improve(const float* costs, float distance, const float* slack, int count) {
  int improves = 0;
  for (int i = 0; i < count; ++i) improves |= distance + costs[i] < slack[i];
  return improves != 0;
}

}  // namespace

EvictionAssignment::EvictionAssignment(const FutureAttention& attention, int recent)
    : attention_(attention),
      recent_(recent),
      budget_(attention.num_tokens()),
      remaining_(attention),
      step_of_(attention.num_tokens(), kNone),
      token_price_(attention.num_tokens(), 0),
      distance_(attention.num_tokens()),
      slack_(attention.num_tokens()),
      slack_above_(attention.num_tokens()),
      reached_from_(attention.num_tokens()),
      evicts_(attention.num_tokens()),
      is_scanned_(attention.num_tokens(), 0) {}

void EvictionAssignment::lower_budget() {
  --budget_;
  search(std::max(budget_, attention_.first_eviction()));
}

// Dijkstra's algorithm over the tokens, with reduced costs. A token that stays ends a path; no
// token farther than the nearest of those is of use.
void EvictionAssignment::search(int source) {
  const float* costs = remaining_.row(source);
  shortest_ = kInfinity;
  for (int token = 0; token < num_candidates(source); ++token) {
    if (step_of_[token] != kNone || costs[token] >= shortest_) continue;
    shortest_ = costs[token];
    end_ = token;
  }
  reached_from_[end_] = source;
  for (int token = 0; token < attention_.num_tokens(); ++token) limit(token, shortest_);
  final_tokens_.clear();
  queue_.clear();
  std::vector<int> scanned = {source};
  scan(source, 0);
  while (!queue_.empty() && queue_.front().first < shortest_) {
    const auto [distance, token] = queue_.front();
    std::pop_heap(queue_.begin(), queue_.end(), std::greater<>());
    queue_.pop_back();
    if (distance > distance_[token] || slack_[token] == -kInfinity) continue;
    final_tokens_.push_back(token);
    slack_[token] = -kInfinity;
    slack_above_[token] = -std::numeric_limits<float>::infinity();
    const int step = step_of_[token];
    if (is_scanned_[step]) continue;  // another eviction at the prompt's end
    evicts_[step] = token;
    scanned.push_back(step);
    scan(step, distance - (cost(token, step) + token_price_[token]));
  }
  for (const int step : scanned) is_scanned_[step] = 0;
  for (const int token : final_tokens_) token_price_[token] += shortest_ - distance_[token];
  loss_ += shortest_;
  for (int token = end_;;) {
    const int step = reached_from_[token];
    step_of_[token] = step;
    if (step == source) break;
    token = evicts_[step];
  }
}

// `distance` is that of the step less its price, which is the reduced cost of what it evicts now.
void EvictionAssignment::scan(int step, double distance) {
  is_scanned_[step] = 1;
  const float* costs = remaining_.row(step);
  const float below = float_below(distance);
  const int count = num_candidates(step);
  for (int begin = 0; begin < count; begin += kTokensPerTest) {
    const int end = std::min(begin + kTokensPerTest, count);
    if (!may_improve(costs + begin, below, slack_above_.data() + begin, end - begin)) continue;
    for (int token = begin; token < end; ++token) {
      if (distance + costs[token] < slack_[token]) {
        reach(token, step, distance + costs[token] + token_price_[token]);
      }
    }
  }
}

void EvictionAssignment::reach(int token, int step, double distance) {
  if (distance >= shortest_) return;
  limit(token, distance);
  reached_from_[token] = step;
  if (step_of_[token] == kNone) {
    shortest_ = distance;
    end_ = token;
  } else {
    queue_.emplace_back(distance, token);
    std::push_heap(queue_.begin(), queue_.end(), std::greater<>());
  }
}

void EvictionAssignment::limit(int token, double distance) {
  distance_[token] = distance;
  slack_[token] = distance - token_price_[token];
  slack_above_[token] = float_above(slack_[token]);
}

Schedule EvictionAssignment::schedule() const {
  Schedule schedule;
  for (const int step : step_of_) {
    schedule.push_back(step == kNone ? attention_.num_tokens() : step);
  }
  return schedule;
}

double EvictionAssignment::step_price(int step) const {
  const float* costs = remaining_.row(step);
  double least = kInfinity;
  for (int token = 0; token < num_candidates(step); ++token) {
    least = std::min(least, costs[token] + token_price_[token]);
  }
  return least;
}

std::vector<double> EvictionAssignment::slot_prices() const {
  std::vector<double> prices(attention_.num_tokens(), 0);
  double later = 0;
  const int first = std::max(budget_, attention_.first_eviction());
  for (int step = attention_.num_tokens() - 1; step >= first; --step) {
    const double price = step_price(step);
    prices[step] = price - later;
    later = price;
  }
  return prices;
}

}  // namespace kvsim
