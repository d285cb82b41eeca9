#include "sim/cache/common_tokens.h"

#include <algorithm>
#include <tuple>

namespace kvsim {

std::vector<CommonTokens> take_common_tokens(std::span<TokenSet> sets, int fewest, int num_tokens) {
  const auto num_words = static_cast<std::size_t>((num_tokens + 63) / 64);
  const auto words_of = [&](int i) { return TokenWords(sets[i].words()).first(num_words); };
  const auto shared = [&](int i, int j) { return count_common(words_of(i), words_of(j)); };
  std::vector<int> large;
  for (int i = 0; i < static_cast<int>(sets.size()); ++i) {
    if (shared(i, i) >= fewest) large.push_back(i);
  }
  std::vector<std::tuple<int, int, int>> pairs;  // minus the number of tokens shared, the sets
  for (std::size_t i = 0; i < large.size(); ++i) {
    for (std::size_t j = i + 1; j < large.size(); ++j) {
      const int count = shared(large[i], large[j]);
      if (count >= fewest) pairs.emplace_back(-count, large[i], large[j]);
    }
  }
  std::sort(pairs.begin(), pairs.end());
  std::vector<CommonTokens> common;
  for (const auto& [order, i, j] : pairs) {
    if (shared(i, j) < fewest) continue;
    common.push_back({i, j, sets[i].intersection(sets[j])});
    sets[i].erase(common.back().tokens);
    sets[j].erase(common.back().tokens);
  }
  return common;
}

}  // namespace kvsim
