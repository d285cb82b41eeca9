#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <map>

#include "tests/policies/random_vectors.h"
#include "tests/support/kept_tokens.h"

namespace kvsim::obcache_test {

using namespace policies_test;
using Steps = std::vector<std::int32_t>;
using Vector = std::vector<float>;

/// Tokens 0 to 2 get a third of the attention of step 3 each, which gives them this logit. Its
/// output is 3, as token 3 gets none.
Shown thirds(float logit) {
  return {.attention = any_attention(4),
          .keys = {{1}, {1}, {1}, {-50}},
          .values = {{4}, {5}, {0}, {0}},
          .queries = {{{1}}, {{1}}, {{1}}, {{logit}}}};
}

TEST_CASE("obcache evicts the token without whose value, logit or both an output moves least",
          "[policies]") {
  const auto left = [](const std::string& score, float logit) {
    return evicted_after(Spec("obcache:recent=1,score=" + score), 3, thirds(logit));
  };
  CHECK(left("v", 1) == Steps{4, 4, 3, 4});   // 4, 5, 0
  CHECK(left("v", 4) == Steps{4, 4, 3, 4});   // the same
  CHECK(left("k", 1) == Steps{3, 4, 4, 4});   // 4 - 3, 5 - 3, 0 - 3
  CHECK(left("vk", 1) == Steps{4, 4, 3, 4});  // 4 + 1, 5 + 2, 0 - 3
  CHECK(left("vk", 4) == Steps{3, 4, 4, 4});  // 4 + 4, 5 + 8, 0 - 12
}

/// The definition, written to be read: scores are squares of derivatives, taken numerically.
struct Definition {
  const Shown& shown;
  std::string score;
  int recent;
  std::string queries;
  std::string pool;
  std::vector<std::map<int, double>> rows = {};  // of each step, by token

  static double dot(const Vector& a, const Vector& b) {
    double sum = 0;
    for (std::size_t d = 0; d < a.size(); ++d) sum += double{a[d]} * double{b[d]};
    return sum;
  }

  /// The output of a query over `tokens`, where the value and the logit of one are scaled.
  std::vector<double> output(int step, std::size_t head, const Steps& tokens, int scaled,
                             double value_factor, double logit_factor) const {
    const auto s = static_cast<std::size_t>(step);
    std::vector<double> sums(shown.values.front().size());
    double total = shown.sink_logit.empty() ? 0 : std::exp(double{shown.sink_logit[head]});
    for (const std::int32_t token : tokens) {
      const auto j = static_cast<std::size_t>(token);
      double logit = shown.scale * dot(shown.queries[s][head], shown.keys[j]);
      if (token == scaled) logit *= logit_factor;
      total += std::exp(logit);
      for (std::size_t d = 0; d < sums.size(); ++d) {
        sums[d] += std::exp(logit) * shown.values[j][d] * (token == scaled ? value_factor : 1);
      }
    }
    for (double& x : sums) x /= total;
    return sums;
  }

  /// The square of the output's derivative along the value, the logit or both becoming 0.
  double square(int step, std::size_t head, const Steps& tokens, int token, bool value,
                bool logit) const {
    const double h = 1e-4;
    const auto at = [&](double x) {
      return output(step, head, tokens, token, value ? 1 - x : 1, logit ? 1 - x : 1);
    };
    const auto after = at(h);
    const auto before = at(-h);
    double sum = 0;
    for (std::size_t d = 0; d < after.size(); ++d) {
      sum += std::pow((after[d] - before[d]) / (2 * h), 2);
    }
    return sum;
  }

  /// The L1 norm of what an output loses with the value.
  double loss(int step, std::size_t head, const Steps& tokens, int token) const {
    const auto with = output(step, head, tokens, token, 1, 1);
    const auto without = output(step, head, tokens, token, 0, 1);
    double sum = 0;
    for (std::size_t d = 0; d < with.size(); ++d) sum += std::abs(with[d] - without[d]);
    return sum;
  }

  double score_of(int step, std::size_t head, const Steps& tokens, int token) const {
    if (score == "v-l1") return loss(step, head, tokens, token);
    if (score == "vk") return square(step, head, tokens, token, true, true);
    const double value = square(step, head, tokens, token, true, false);
    const double key = square(step, head, tokens, token, false, true);
    return score == "v" ? value : score == "k" ? key : value + key;
  }

  /// Over the steps that count at the eviction of step t, if the first one was at step `cut`.
  double sum_of(int token, int t, int cut) {
    double sum = 0;
    for (int step = 0; step <= t; ++step) {
      const bool counts = queries == "all" || (queries == "newest" && step == t) ||
                          (queries == "recent" && step > cut - std::max(1, recent));
      if (counts) sum += rows[static_cast<std::size_t>(step)][token];
    }
    return sum;
  }

  std::vector<double> pooled(const std::vector<double>& sums) const {
    if (pool == "none") return sums;
    std::vector<double> found;
    const int n = static_cast<int>(sums.size());
    for (int i = 0; i < n; ++i) {
      double most = 0;
      double total = 0;
      for (int j = std::max(0, i - 3); j <= std::min(n - 1, i + 3); ++j) {
        most = std::max(most, sums[static_cast<std::size_t>(j)]);
        total += sums[static_cast<std::size_t>(j)];
      }
      found.push_back(pool == "max" ? most : total);
    }
    return found;
  }

  Steps evicted_after(int budget) {
    const int n = static_cast<int>(shown.queries.size());
    int cut = n;
    Steps left(shown.queries.size(), n);
    Steps cache;
    for (int t = 0; t < n; ++t) {
      cache.push_back(t);
      auto& row = rows.emplace_back();
      for (std::size_t h = 0; h < shown.queries.front().size(); ++h) {
        for (const std::int32_t token : cache) row[token] += score_of(t, h, cache, token);
      }
      const auto over = std::ssize(cache) - budget;
      if (over <= 0 || t + 1 < shown.prompt) continue;
      cut = std::min(cut, t);
      std::vector<double> sums;
      for (auto token = cache.begin(); token != cache.end() - recent; ++token) {
        sums.push_back(sum_of(*token, t, cut));
      }
      sums = pooled(sums);
      std::vector<std::pair<double, std::int32_t>> scores;
      for (std::size_t i = 0; i < sums.size(); ++i) scores.emplace_back(sums[i], cache[i]);
      std::sort(scores.begin(), scores.end());
      scores.resize(static_cast<std::size_t>(over));
      for (const auto& [sum, token] : scores) {
        left[static_cast<std::size_t>(token)] = t;
        std::erase(cache, token);
      }
    }
    return left;
  }
};

Shown random_text(std::size_t tokens, int prompt) {
  Shown shown{.attention = any_attention(tokens), .prompt = prompt, .scale = 0.5F};
  for (std::uint64_t t = 0; t < tokens; ++t) {
    shown.keys.push_back(random_vector(1, t, 3));
    shown.values.push_back(random_vector(2, t, 5));
    shown.queries.push_back({random_vector(3, t, 3), random_vector(4, t, 3)});
  }
  return shown;
}

void check_definition(const Shown& shown, const std::string& score, int recent,
                      const std::string& queries, const std::string& pool) {
  const std::string spec = "obcache:score=" + score + ",recent=" + std::to_string(recent) +
                           ",queries=" + queries + ",pool=" + pool;
  for (const int budget : {7, 20}) {
    CAPTURE(spec, budget, shown.prompt);
    CHECK(evicted_after(Spec(spec), budget, shown) ==
          Definition{shown, score, recent, queries, pool}.evicted_after(budget));
  }
}

TEST_CASE("obcache keeps what the squares of derivatives of outputs keep", "[policies]") {
  const Shown shown = random_text(60, GENERATE(0, 35));
  for (const char* score : {"vk", "v", "k", "v-and-k", "v-l1"}) {
    check_definition(shown, score, 4, "recent", "none");
  }
}

TEST_CASE("obcache counts the queries that its parameter says", "[policies]") {
  const Shown shown = random_text(60, GENERATE(0, 35));
  check_definition(shown, "vk", 4, "all", "none");
  check_definition(shown, "vk", 0, "newest", "none");
  check_definition(shown, "vk", 0, "recent", "none");
}

TEST_CASE("obcache pools over seven tokens, those of its window left out", "[policies]") {
  const Shown shown = random_text(60, GENERATE(0, 35));
  check_definition(shown, "vk", 4, "recent", "avg");
  check_definition(shown, "vk", 4, "recent", "max");
}

TEST_CASE("obcache gives a learned sink its share of the attention", "[policies]") {
  Shown shown = random_text(60, 35);
  shown.sink_logit = {1, -1};
  check_definition(shown, "vk", 4, "recent", "none");
}

/// The scores of the last step of a text by its query, with these tokens in the cache.
std::vector<double> scores_with(const Context& context, const std::string& spec, const Shown& shown,
                                const Steps& tokens) {
  const std::vector<float> keys = joined(shown.keys);
  const std::vector<float> values = joined(shown.values);
  const std::vector<std::span<const float>> queries(shown.queries.back().begin(),
                                                    shown.queries.back().end());
  std::vector<double> scores(tokens.size());
  Spec(spec).make(context)->update({.index = static_cast<int>(shown.queries.size()) - 1,
                                    .tokens = tokens,
                                    .keys = {keys.data(), shown.keys.front().size(), tokens},
                                    .values = {values.data(), shown.values.front().size(), tokens},
                                    .queries = queries,
                                    .overflow = 1},
                                   scores);
  return scores;
}

TEST_CASE("to the last bit: obcache scores what a window or chunk leaves as if it were alone",
          "[policies]") {
  const Shown shown = random_text(40, 0);
  const std::string spec =
      "obcache:recent=0,queries=newest,score=" + GENERATE(std::string("vk"), "v-and-k");
  const Steps cache = {0, 3, 4, 9, 17, 29, 30, 31, 33, 36, 37, 38, 39};
  const Context whole{.budget = 5, .scale = 0.5F};
  for (const int reach : {1, 3, 9, 10, 23, 40}) {
    Context windowed = whole;
    windowed.sliding_window = reach;
    Context chunked = whole;
    chunked.attention_chunk = reach;
    for (const Context& context : {windowed, chunked}) {
      const int oldest = context.sliding_window ? 40 - reach : 39 / reach * reach;
      const auto first = std::lower_bound(cache.begin(), cache.end(), oldest);
      std::vector<double> expected(static_cast<std::size_t>(first - cache.begin()), 0);
      const auto alone = scores_with(whole, spec, shown, {first, cache.end()});
      expected.insert(expected.end(), alone.begin(), alone.end());
      CAPTURE(spec, reach, oldest);
      CHECK(scores_with(context, spec, shown, cache) == expected);
    }
  }
}

}  // namespace kvsim::obcache_test
