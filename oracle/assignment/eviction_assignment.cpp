#include "oracle/assignment/eviction_assignment.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "sim/base/interrupt.h"
#include "sim/base/vector_targets.h"
#include "sim/kernels/candidate_kernels.h"

namespace kvsim {
namespace {

constexpr int kNone = -1;
constexpr double kUnreached = std::numeric_limits<double>::infinity();

// Tokens of which one bit each tells whether they improve, and tokens that are tested together
// before: few improve.
constexpr std::size_t kMarked = 32;
constexpr std::size_t kTested = 2 * kMarked;

constexpr std::array<std::uint32_t, kMarked> kMarks = [] {
  std::array<std::uint32_t, kMarked> marks{};
  for (std::size_t i = 0; i < kMarked; ++i) marks[i] = std::uint32_t{1} << i;
  return marks;
}();

// The test in floats only rules out tokens that cannot improve. With cost, distance and slack at
// least 0, this much covers the rounding of slack and distance to float and of their sum with a
// cost.
constexpr float kMargin = 0x1p-22F;

float rounded_up(double x) { return static_cast<float>(x) * (1 + kMargin); }

float rounded_down(double x) { return static_cast<float>(x) * (1 - kMargin); }

/// Writes the tokens at which cost + distance is below the slack, ascending; returns their number.
/// The inner loops have no branches, so that they become vector instructions.
template <class Target>
KVSIM_INLINE std::size_t find_improved(const float* costs, float distance, const float* slack,
                                       std::size_t count, std::int32_t* __restrict tokens) {
  std::size_t found = 0;
  std::size_t begin = 0;
  for (; begin + kTested <= count; begin += kTested) {
    std::uint32_t any = 0;
    for (std::size_t i = begin; i < begin + kTested; ++i) {
      any |= costs[i] + distance < slack[i] ? ~std::uint32_t{0} : 0;
    }
    if (any == 0) continue;
    for (std::size_t first = begin; first < begin + kTested; first += kMarked) {
      std::uint32_t improved = 0;
      for (std::size_t i = 0; i < kMarked; ++i) {
        improved |= costs[first + i] + distance < slack[first + i] ? kMarks[i] : 0;
      }
      for (; improved != 0; improved &= improved - 1) {
        tokens[found++] = static_cast<std::int32_t>(first) + std::countr_zero(improved);
      }
    }
  }
  for (; begin < count; ++begin) {
    if (costs[begin] + distance < slack[begin]) tokens[found++] = static_cast<std::int32_t>(begin);
  }
  return found;
}
KVSIM_KERNEL(std::size_t, find_improved,
             (const float* costs, float distance, const float* slack, std::size_t count,
              std::int32_t* tokens),
             (costs, distance, slack, count, tokens))

}  // namespace

EvictionAssignment::EvictionAssignment(const StepRows& losses, int recent)
    : EvictionAssignment(losses, std::make_shared<RemainingSums>(losses), recent) {}

EvictionAssignment::EvictionAssignment(const EvictionSteps& steps,
                                       std::shared_ptr<const RemainingSums> costs, int recent)
    : steps_(steps),
      costs_(std::move(costs)),
      recent_(recent),
      budget_(steps.num_tokens()),
      step_of_(steps.num_tokens(), kNone),
      token_price_(steps.num_tokens(), 0),
      queue_(steps.num_tokens()),
      slack_(steps.num_tokens()),
      improved_(steps.num_tokens()),
      reached_from_(steps.num_tokens()),
      released_token_(steps.num_tokens()),
      is_scanned_(steps.num_tokens(), 0) {}

void EvictionAssignment::lower_budget() {
  --budget_;
  add_eviction(std::max(budget_, steps_.first_eviction()));
}

// Dijkstra's algorithm over the tokens, with reduced costs. A path ends at a token that no step
// evicts; a token farther than the nearest such token cannot shorten it.
void EvictionAssignment::add_eviction(int step) {
  poll_interrupt();
  start(step);
  while (queue_.nearest() < shortest_) {
    poll_interrupt();
    const double distance = queue_.nearest();
    const int token = queue_.take(distance);
    settled_.emplace_back(token, distance);
    slack_[token] = -std::numeric_limits<float>::infinity();
    const int taken_by = step_of_[token];
    if (is_scanned_[taken_by]) continue;  // a step that evicts several tokens
    released_token_[taken_by] = token;
    scan(taken_by, distance - (cost(token, taken_by) + token_price_[token]));
  }
  augment(step);
}

void EvictionAssignment::start(int source) {
  const float* costs = costs_->row(source);
  const int count = num_candidates(source);
  queue_.clear();
  settled_.clear();
  scanned_ = {source};
  is_scanned_[source] = 1;
  shortest_ = kUnreached;
  for (int token = 0; token < count; ++token) {
    if (step_of_[token] == kNone) reach(token, source, costs[token]);
  }
  for (int token = 0; token < steps_.num_tokens(); ++token) {
    limit(token, shortest_);
    if (token < count && step_of_[token] != kNone) {
      reach(token, source, costs[token] + token_price_[token]);
    }
  }
}

// `distance` is that of the step less its price, which is cost plus token price of its present
// token.
void EvictionAssignment::scan(int step, double distance) {
  is_scanned_[step] = 1;
  scanned_.push_back(step);
  const float* costs = costs_->row(step);
  const float below = rounded_down(distance);
  const auto size = static_cast<std::size_t>(std::max(0, num_candidates(step)));
  const std::size_t found = best_find_improved(costs, below, slack_.data(), size, improved_.data());
  // Each of them changes its own slack alone.
  for (std::size_t i = 0; i < found; ++i) {
    const int token = improved_[i];
    reach(token, step, distance + costs[token] + token_price_[token]);
  }
}

void EvictionAssignment::reach(int token, int step, double distance) {
  const bool stays = step_of_[token] == kNone;
  if (distance >= shortest_ || (!stays && distance >= queue_.distance(token))) {
    limit(token, stays ? shortest_ : std::min(shortest_, queue_.distance(token)));
    return;
  }
  limit(token, distance);
  reached_from_[token] = step;
  if (stays) {
    shortest_ = distance;
    end_ = token;
  } else {
    queue_.lower(token, distance);
  }
}

void EvictionAssignment::limit(int token, double distance) {
  slack_[token] = rounded_up(distance - token_price_[token]);
}

// Every step on the path gives up its token to the step before it and takes the next one.
void EvictionAssignment::augment(int source) {
  for (const auto& [token, distance] : settled_) token_price_[token] += shortest_ - distance;
  for (const int step : scanned_) is_scanned_[step] = 0;
  loss_ += shortest_;
  for (int token = end_;; token = released_token_[step_of_[token]]) {
    step_of_[token] = reached_from_[token];
    if (step_of_[token] == source) break;
  }
}

Schedule EvictionAssignment::schedule() const {
  Schedule schedule;
  for (const int step : step_of_) {
    schedule.push_back(step == kNone ? steps_.num_tokens() : step);
  }
  return schedule;
}

double EvictionAssignment::step_price(int step) const {
  const auto count = static_cast<std::size_t>(num_candidates(step));
  return lowest_sum({costs_->row(step), count}, token_price_.data());
}

double EvictionAssignment::dual_bound() const {
  std::vector<int> evictions(steps_.num_tokens(), 0);
  double bound = 0;
  for (int token = 0; token < steps_.num_tokens(); ++token) {
    bound -= token_price_[token];
    if (step_of_[token] != kNone) ++evictions[step_of_[token]];
  }
  for (int step = 0; step < steps_.num_tokens(); ++step) {
    if (evictions[step] > 0) bound += evictions[step] * step_price(step);
  }
  return bound;
}

std::vector<double> EvictionAssignment::slot_prices() const {
  // At first the price of the step: cost plus token price of the token that it evicts.
  std::vector<double> price(steps_.num_tokens() + 1, 0);
  for (int token = 0; token < steps_.num_tokens(); ++token) {
    const int step = step_of_[token];
    if (step != kNone) price[step] = cost(token, step) + token_price_[token];
  }
  const int first = std::max(budget_, steps_.first_eviction());
  for (int step = 0; step < steps_.num_tokens(); ++step) {
    price[step] = step < first ? 0 : std::max(0.0, price[step] - price[step + 1]);
  }
  price.pop_back();
  return price;
}

}  // namespace kvsim
