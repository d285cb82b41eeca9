#include "sim/kernels/score_kernels.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <random>

#include "sim/kernels/attention_kernels.h"

namespace kvsim::score_kernels_test {

TEST_CASE("kernels: scores follow the rule in every slot but the gaps, and the lowest is found") {
  using Kind = ScoreRule::Kind;
  const ScoreRule rule{.kind = GENERATE(Kind::attention, Kind::sum, Kind::mean, Kind::recency,
                                        Kind::frequency, Kind::random, Kind::columns, Kind::blocks),
                       .seed = 9,
                       .length = 7,
                       .part = 2,
                       .sign = GENERATE(1.F, -1.F)};
  const std::size_t count = GENERATE(1, 8, 15, 200);
  std::mt19937 random(count);
  std::uniform_real_distribution<float> uniform(0, 0.1F);
  std::vector<std::int32_t> tokens(count);
  std::iota(tokens.begin(), tokens.end(), 3);
  std::vector<float> weight(count);
  const float scale = 0.7F;
  std::vector<double> scores(count);
  for (std::size_t i = 0; i < count; ++i) {
    weight[i] = uniform(random);
    scores[i] = i % 5 == 1 ? kEvictedScore : uniform(random);
  }
  const ScoredStep step{static_cast<std::int32_t>(count) + 2, 20};
  std::vector<double> expected = scores;
  for (std::size_t i = 0; i < count; ++i) {
    if (expected[i] == kEvictedScore) continue;
    expected[i] = next_score(rule, step, tokens[i], expected[i], weight[i] * scale);
  }
  const std::size_t begin = std::min<std::size_t>(count, GENERATE(0, 3));
  const std::size_t end = std::max(begin, count - std::min<std::size_t>(count, GENERATE(0, 2)));
  const std::size_t lowest =
      update_scores(rule, step, {tokens, weight, scale, scores}, begin, end).slot;
  CHECK(scores == expected);
  const auto first = expected.begin() + static_cast<std::ptrdiff_t>(begin);
  const auto last = expected.begin() + static_cast<std::ptrdiff_t>(end);
  CHECK(lowest == static_cast<std::size_t>(std::min_element(first, last) - expected.begin()));
}

TEST_CASE("kernels: the first of the lowest scores is found at every length") {
  for (std::size_t count = 1; count < 150; ++count) {
    for (const std::size_t at : {std::size_t{0}, count / 2, count - 1}) {
      std::vector<double> scores(count, 2);
      for (std::size_t i = at; i < count; i += 7) scores[i] = -1;
      REQUIRE(lowest(scores).slot == at);
      REQUIRE(lowest(scores).is_tied == (at + 7 < count));
    }
  }
  CHECK(lowest(std::vector<double>{kEvictedScore, 3, kEvictedScore, 3}).slot == 1);
}

TEST_CASE("kernels: a lowest score that two slots have is tied wherever they are") {
  constexpr std::size_t kCount = 109;
  for (std::size_t first = 0; first < kCount; ++first) {
    for (std::size_t second = first; second < kCount; ++second) {
      std::vector<double> scores(kCount, 2);
      scores[first] = 1;
      scores[second] = 1;
      const std::vector<float> weight(scores.begin(), scores.end());
      const std::vector<float> gaps(kCount, 0);
      for (const LowestScore found :
           {lowest(scores), least_attention(weight, 0.5F, gaps, 0, kCount)}) {
        REQUIRE(found.slot == first);
        REQUIRE(found.is_tied == (first != second));
      }
    }
  }
  CHECK_FALSE(lowest(std::vector<double>{kEvictedScore}).is_tied);
  CHECK(lowest(std::vector<double>(9, kEvictedScore)).is_tied);
}

TEST_CASE("kernels: the least attention is the lowest score by attention, gaps left out") {
  const std::size_t count = GENERATE(1, 8, 31, 32, 33, 200);
  std::mt19937 random(count);
  std::vector<std::int32_t> tokens(count);
  std::vector<float> weight(count);
  std::vector<float> gaps(count);
  std::vector<double> scores(count);
  for (int round = 0; round < 20; ++round) {
    for (std::size_t i = 0; i < count; ++i) {
      const bool is_gap = i + 1 < count && random() % 3 == 0;
      weight[i] = static_cast<float>(random() % 50) / 100;  // some tie
      scores[i] = is_gap ? kEvictedScore : 0;
      gaps[i] = static_cast<float>(scores[i]);
    }
    const std::size_t begin = random() % count;
    const LowestScore found = least_attention(weight, 0.3F, gaps, begin, count);
    const LowestScore expected = update_scores({.kind = ScoreRule::Kind::attention}, {200, 20},
                                               {tokens, weight, 0.3F, scores}, begin, count);
    CHECK(found.slot == expected.slot);
    CHECK(found.is_tied == expected.is_tied);
  }
}

TEST_CASE("kernels: attention of several heads adds up in single precision") {
  const std::vector<float> first = {0.1F, 0.2F, 0.7F};
  const std::vector<float> second = {0.3F, 0.3F, 0.4F};
  std::vector<float> mean(3, 0);
  add_attention(first, 0.5F, mean.data());
  add_attention(second, 0.25F, mean.data());
  for (int i = 0; i < 3; ++i) {
    const float expected = static_cast<float>(first[i] * 0.5F) + second[i] * 0.25F;
    CHECK(mean[i] == expected);
  }
}

TEST_CASE("kernels: gathered rows are the weights of the given tokens") {
  AlignedRows by_token(50, kBlockSteps);
  for (int token = 0; token < 50; ++token) {
    for (int step = 0; step < kBlockSteps; ++step) {
      by_token.row(token)[step] = static_cast<float>(100 * token + step);
    }
  }
  const std::size_t count = GENERATE(1, 4, 6, 17);
  std::vector<std::int32_t> tokens;
  for (std::size_t i = 0; i < count; ++i) tokens.push_back(static_cast<std::int32_t>(49 - 2 * i));
  AlignedRows rows(kBlockSteps, 32);
  gather_rows(by_token, tokens, rows);
  for (int step = 0; step < kBlockSteps; ++step) {
    for (std::size_t i = 0; i < count; ++i) {
      REQUIRE(rows.row(step)[i] == by_token.row(tokens[i])[step]);
    }
  }
}

}  // namespace kvsim::score_kernels_test
