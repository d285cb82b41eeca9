#include "policies/parts/nonuniform_levels.h"

#include <algorithm>
#include <cmath>

namespace kvsim {
namespace {

constexpr int kMostKMeansRounds = 50;

}  // namespace

std::vector<float> kmeans_levels(std::vector<float> numbers, std::size_t count) {
  if (numbers.empty()) return std::vector<float>(count, 0);
  std::sort(numbers.begin(), numbers.end());
  std::vector<double> sums{0};  // of the first numbers
  for (const float x : numbers) sums.push_back(sums.back() + double{x});
  std::vector<float> levels;
  for (std::size_t i = 0; i < count; ++i) {
    levels.push_back(numbers[numbers.size() * (2 * i + 1) / (2 * count)]);
  }
  for (int round = 0; round < kMostKMeansRounds; ++round) {
    const std::vector<float> before = levels;
    std::size_t begin = 0;
    for (std::size_t i = 0; i < count; ++i) {
      std::size_t end = numbers.size();
      if (i + 1 < count) {
        const float border = before[i] + (before[i + 1] - before[i]) / 2;
        const auto place = std::upper_bound(numbers.begin(), numbers.end(), border);
        end = std::max(begin, static_cast<std::size_t>(place - numbers.begin()));
      }
      if (end > begin) {
        levels[i] =
            static_cast<float>((sums[end] - sums[begin]) / static_cast<double>(end - begin));
      }
      begin = end;
    }
    if (levels == before) break;
  }
  return levels;
}

float nearest_level(std::span<const float> levels, float x) {
  float nearest = levels.front();
  for (const float level : levels) {
    if (std::fabs(x - level) < std::fabs(x - nearest)) nearest = level;
  }
  return nearest;
}

float quantile(std::span<const float> sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const double weight = place - static_cast<double>(below);
  const double low = sorted[below];
  const double high = sorted[std::min(below + 1, sorted.size() - 1)];
  return static_cast<float>(low + (high - low) * weight);
}

}  // namespace kvsim
