#include "sim/replay/head_scores.h"

#include <algorithm>
#include <limits>

namespace kvsim {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Adds to `sums` the place of each number of `scores`, 1 for the lowest; equal numbers share the
/// mean of their places.
void add_ranks(const std::vector<double>& scores, std::vector<double>& sums) {
  std::vector<std::size_t> order(scores.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return scores[a] < scores[b]; });
  for (std::size_t begin = 0; begin < order.size();) {
    std::size_t end = begin + 1;
    while (end < order.size() && scores[order[end]] == scores[order[begin]]) ++end;
    const double rank = static_cast<double>(begin + 1 + end) / 2;
    for (; begin < end; ++begin) sums[order[begin]] += rank;
  }
}

}  // namespace

std::span<double> HeadScores::take(std::size_t head, std::span<const std::int32_t> tokens) {
  std::vector<double>& of_head = heads_[head];
  of_head.resize(static_cast<std::size_t>(tokens.back()) + 1, 0);
  taken_.resize(tokens.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) taken_[i] = of_head[tokens[i]];
  return taken_;
}

void HeadScores::store(std::size_t head, std::span<const std::int32_t> tokens) {
  for (std::size_t i = 0; i < tokens.size(); ++i) heads_[head][tokens[i]] = taken_[i];
}

void HeadScores::join(Cache& cache) {
  if (joined_ == JoinedScores::mean_rank) return join_ranks(cache);
  const auto tokens = cache.tokens();
  const std::span<double> scores = cache.scores();
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    double sum = 0;
    double most = -kInfinity;
    for (const std::vector<double>& head : heads_) {
      sum += head[tokens[i]];
      most = std::max(most, head[tokens[i]]);
    }
    // A head for which the token must stay outweighs one for which it must go.
    const bool is_mean = joined_ == JoinedScores::mean && most < kInfinity;
    scores[i] = is_mean ? sum / static_cast<double>(heads_.size()) : most;
  }
}

void HeadScores::join_ranks(Cache& cache) const {
  const auto tokens = cache.tokens();
  const std::span<double> scores = cache.scores();
  const std::vector<std::size_t> candidates = cache.candidates();
  std::vector<double> sums(candidates.size(), 0);
  std::vector<double> of_head(candidates.size());
  for (const std::vector<double>& head : heads_) {
    for (std::size_t i = 0; i < candidates.size(); ++i) of_head[i] = head[tokens[candidates[i]]];
    add_ranks(of_head, sums);
  }
  std::fill(scores.begin(), scores.end(), 0.0);
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    scores[candidates[i]] = sums[i] / static_cast<double>(heads_.size());
  }
}

}  // namespace kvsim
