#pragma once

#include <algorithm>
#include <cstdint>

namespace kvsim {

/// How the score of a page follows from the scores of its tokens.
enum class PageScore { mean, max, min };

/// What a cache evicts at once: the tokens of a page. Page i of a text holds the positions
/// i * size .. (i + 1) * size - 1. Pages of one token are the ordinary cache.
struct Paging {
  int size = 1;
  PageScore score = PageScore::mean;

  bool operator==(const Paging&) const = default;

  /// Whether caches evict token by token.
  bool is_by_token() const { return size == 1; }

  int page_of(std::int32_t token) const { return token / size; }

  /// The fewest pages that hold `tokens` tokens.
  int pages_for(int tokens) const { return (std::max(tokens, 0) + size - 1) / size; }
};

}  // namespace kvsim
