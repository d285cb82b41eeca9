#include "sim/cache/spanning_tree.h"

#include <algorithm>

namespace kvsim {
namespace {

// A sum that is this much smaller than the sums that it is derived from has few digits left.
constexpr double kMostTimes = 16;

}  // namespace

std::vector<TreeEdge> spanning_tree(std::span<const TokenSet> sets, std::span<const int> roots,
                                    int num_tokens, std::span<const double> weights) {
  const auto num_words = static_cast<std::size_t>((num_tokens + 63) / 64);
  const TokenSet empty_set(num_tokens);
  const auto num_sets = static_cast<int>(sets.size());
  std::vector<int> nearest(num_sets, -1);
  std::vector<int> distance(num_sets);
  std::vector<char> is_reached(num_sets, 0);
  std::vector<double> heaviest(weights.begin(), weights.end());  // on the way to a set, and itself
  const auto detour = [&](int from, int i) {
    if (from < 0 || heaviest.empty() || heaviest[from] <= kMostTimes * weights[i]) return 0;
    return count_common(sets[i].words(), sets[i].words()) / 2;
  };
  const auto relax_from = [&](int from, const TokenSet& set) {
    for (int i = 0; i < num_sets; ++i) {
      if (is_reached[i] || (from >= 0 && distance[i] == 0)) continue;
      const TokenWords words = TokenWords(set.words()).first(num_words);
      int d = count_different(words, sets[i].words());
      if (from >= 0 && d < distance[i]) d += detour(from, i);
      if (from >= 0 && d >= distance[i]) continue;
      distance[i] = d;
      nearest[i] = from;
    }
  };
  relax_from(-1, empty_set);
  for (const int root : roots) {
    is_reached[root] = 1;
    relax_from(root, sets[root]);
  }
  std::vector<TreeEdge> edges;
  while (edges.size() + roots.size() < sets.size()) {
    int next = -1;
    for (int i = 0; i < num_sets; ++i) {
      if (!is_reached[i] && (next < 0 || distance[i] < distance[next])) next = i;
    }
    is_reached[next] = 1;
    const int parent = nearest[next];
    edges.push_back({next, parent});
    if (parent >= 0 && !heaviest.empty()) {
      heaviest[next] = std::max(heaviest[next], heaviest[parent]);
    }
    relax_from(next, sets[next]);
  }
  return edges;
}

}  // namespace kvsim
