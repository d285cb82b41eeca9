#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "tests/policies/random_vectors.h"
#include "tests/support/kept_tokens.h"

namespace kvsim::lookback_test {

using namespace policies_test;
using Steps = std::vector<std::int32_t>;
using Vector = std::vector<float>;

TEST_CASE("lookback evicts the token without which the last output moves least", "[policies]") {
  // Even attention: the output is 1, as the value of token 1 is.
  const Shown shown{.attention = any_attention(3),
                    .keys = {{0}, {0}, {0}},
                    .values = {{0}, {1}, {2}},
                    .queries = {{{1}}, {{1}}, {{1}}}};
  CHECK(evicted_after(Spec("lookback:window=1"), 2, shown) == Steps{3, 2, 3});
  // A token that nobody attends to goes first, however its value differs.
  Shown ignored = shown;
  ignored.keys[0] = {-50};
  CHECK(evicted_after(Spec("lookback:window=1"), 2, ignored) == Steps{2, 3, 3});
}

TEST_CASE("lookback counts the outputs of its window alone", "[policies]") {
  // Step 2 attends to token 0, step 3 to token 1.
  const Shown shown{.attention = any_attention(4),
                    .keys = {{9, 0}, {0, 9}, {-1, -1}, {-1, -1}},
                    .values = {{5}, {-5}, {0.1F}, {0}},
                    .queries = {{{0, 0}}, {{0, 0}}, {{1, 0}}, {{0, 1}}},
                    .prompt = 4};
  CHECK(evicted_after(Spec("lookback:window=1"), 2, shown) == Steps{3, 4, 3, 4});
  CHECK(evicted_after(Spec("lookback:window=2"), 3, shown) == Steps{4, 4, 3, 4});
}

/// The definition, written to be read.
struct Definition {
  const Shown& shown;
  int window;
  bool given;

  float dot(const Vector& a, const Vector& b) const {
    double sum = 0;
    for (std::size_t d = 0; d < a.size(); ++d) sum += double{a[d]} * double{b[d]};
    return static_cast<float>(sum);
  }

  /// Over those of `tokens` that the query saw, without `left_out`.
  std::vector<double> output(std::size_t s, std::size_t head, const Steps& tokens,
                             int left_out = -1) const {
    std::vector<double> sums(shown.values.front().size());
    double total = 0;
    for (const std::int32_t token : tokens) {
      if (token > static_cast<int>(s) || token == left_out) continue;
      const auto j = static_cast<std::size_t>(token);
      const double weight =
          std::exp(double{shown.scale * dot(shown.queries[s][head], shown.keys[j])});
      total += weight;
      for (std::size_t d = 0; d < sums.size(); ++d) sums[d] += weight * shown.values[j][d];
    }
    for (double& x : sums) x /= total;
    return sums;
  }

  Steps evicted_after(int budget) const {
    const int n = static_cast<int>(shown.queries.size());
    Steps left(shown.queries.size(), n);
    Steps cache;
    std::vector<std::vector<std::vector<double>>> outputs;  // of each step and head, as given
    for (int t = 0; t < n; ++t) {
      cache.push_back(t);
      auto& heads = outputs.emplace_back();
      for (std::size_t h = 0; h < shown.queries.front().size(); ++h) {
        heads.push_back(output(static_cast<std::size_t>(t), h, cache));
      }
      if (std::ssize(cache) <= std::max(budget, shown.most_held) || t + 1 < shown.prompt) continue;
      std::vector<std::pair<double, std::int32_t>> errors;  // with their tokens
      for (auto token = cache.begin(); token != cache.end() - 1; ++token) {
        double& error = errors.emplace_back(0, *token).first;
        for (int step = std::max(0, t - window + 1); step <= t; ++step) {
          const auto s = static_cast<std::size_t>(step);
          for (std::size_t h = 0; h < heads.size(); ++h) {
            const auto target = given ? outputs[s][h] : output(s, h, cache);
            const auto without = output(s, h, cache, *token);
            for (std::size_t d = 0; d < target.size(); ++d) {
              error += (without[d] - target[d]) * (without[d] - target[d]);
            }
          }
        }
      }
      std::sort(errors.begin(), errors.end());
      errors.resize(cache.size() - static_cast<std::size_t>(budget));
      for (const auto& [error, token] : errors) {
        left[static_cast<std::size_t>(token)] = t;
        std::erase(cache, token);
      }
    }
    return left;
  }
};

Shown random_text(std::size_t tokens, float scale, int prompt) {
  Shown shown{.attention = any_attention(tokens), .prompt = prompt, .scale = scale};
  for (std::uint64_t t = 0; t < tokens; ++t) {
    shown.keys.push_back(random_vector(1, t, 3));
    shown.values.push_back(random_vector(2, t, 5));
    shown.queries.push_back({random_vector(3, t, 3), random_vector(4, t, 3)});
  }
  return shown;
}

TEST_CASE("lookback keeps what its definition keeps", "[policies]") {
  // With the larger scale, most of a query's weight is on few tokens, and leaves with them.
  const float scale = GENERATE(0.5F, 3.F);
  const int prompt = GENERATE(0, 60);  // of which more leave at once than the window has steps
  const Shown shown = random_text(120, scale, prompt);
  for (const int window : {1, 3, 12}) {
    for (const bool given : {true, false}) {
      for (const int budget : {5, 9, 20}) {
        if (budget <= window) continue;  // each query still sees two tokens
        CAPTURE(scale, prompt, window, given, budget);
        const std::string spec =
            "lookback:window=" + std::to_string(window) + ",target=" + (given ? "given" : "now");
        CHECK(evicted_after(Spec(spec), budget, shown) ==
              Definition{shown, window, given}.evicted_after(budget));
      }
    }
  }
}

TEST_CASE("lookback keeps what its definition keeps where several tokens arrive and leave at once",
          "[policies]") {
  constexpr int kBudget = 9;
  for (const int interval : {2, 5}) {
    for (const int window : {1, 3, 7}) {  // both more and fewer steps than tokens that leave
      for (const bool given : {true, false}) {
        Shown shown = random_text(80, 1, 20);
        shown.most_held = kBudget + interval - 1;
        CAPTURE(interval, window, given);
        const std::string spec =
            "lookback:window=" + std::to_string(window) + ",target=" + (given ? "given" : "now");
        CHECK(evicted_after(Spec(spec), kBudget, shown) ==
              Definition{shown, window, given}.evicted_after(kBudget));
      }
    }
  }
}

}  // namespace kvsim::lookback_test
