#include "sim/sweep/apportion.h"

#include <algorithm>
#include <numeric>

namespace kvsim {

std::vector<double> proportional(int total, int most, const std::vector<double>& weights) {
  std::vector<double> ideal(weights.size(), 0);
  std::vector<bool> is_full(weights.size(), false);
  for (bool is_changing = true; is_changing;) {
    is_changing = false;
    double open = total;
    double weight = 0;
    int num_open = 0;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      if (is_full[i]) {
        open -= most;
      } else {
        weight += weights[i];
        ++num_open;
      }
    }
    for (std::size_t i = 0; i < weights.size(); ++i) {
      if (is_full[i]) {
        ideal[i] = most;
        continue;
      }
      ideal[i] = weight > 0 ? open * weights[i] / weight : open / num_open;
      if (ideal[i] < most) continue;
      is_full[i] = true;
      is_changing = true;
    }
  }
  return ideal;
}

void raise_to(int least, int total, std::vector<int>& parts) {
  for (int& part : parts) part = std::max(part, least);
  for (int sum = std::accumulate(parts.begin(), parts.end(), 0); sum > total; --sum) {
    --*std::max_element(parts.begin(), parts.end());
  }
}

std::vector<int> rounded(const std::vector<double>& ideal, int total, int least, int most) {
  std::vector<int> parts;
  for (const double part : ideal) parts.push_back(std::max(least, static_cast<int>(part)));
  for (int sum = std::accumulate(parts.begin(), parts.end(), 0); sum < total; ++sum) {
    std::size_t next = parts.size();
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (parts[i] == most) continue;
      if (next == parts.size() || ideal[i] - parts[i] > ideal[next] - parts[next]) next = i;
    }
    if (next == parts.size()) break;
    ++parts[next];
  }
  raise_to(least, total, parts);
  return parts;
}

std::vector<int> apportion(int total, int least, int most, const std::vector<double>& weights) {
  return rounded(proportional(total, most, weights), total, least, most);
}

}  // namespace kvsim
