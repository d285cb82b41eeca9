#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "policies/registry/registry.h"
#include "sim/base/errors.h"
#include "sim/base/random_bits.h"

namespace kvsim::critical_test {

constexpr int kValueDim = 3;
constexpr int kHidden = 5;

/// Numbers between -1 and 1.
std::vector<float> numbers(std::size_t count, std::uint64_t seed) {
  std::vector<float> all;
  for (std::uint64_t i = 0; i < count; ++i) {
    all.push_back(static_cast<float>(random_bits(seed, i) % 2001) / 1000 - 1);
  }
  return all;
}

/// A cache of `tokens` tokens, of which the last step attends to each as it pleases.
struct Example {
  int tokens = 12;
  std::vector<float> keys = numbers(24, 1);
  std::vector<float> values = numbers(std::size_t{12} * kValueDim, 2);
  std::vector<std::vector<float>> projections = {numbers(kValueDim * kHidden, 3),
                                                 numbers(kValueDim* kHidden, 4)};
  std::vector<std::int32_t> positions = [] {
    std::vector<std::int32_t> all(12);
    std::iota(all.begin(), all.end(), 0);
    return all;
  }();

  Context context(int budget) const {
    Context context{.budget = budget};
    context.output_projection.assign(projections.begin(), projections.end());
    return context;
  }

  /// The scores after the last step, which evicts.
  std::vector<double> scores(const Spec& spec, const Context& context) const {
    const auto policy = spec.make(context);
    std::vector<double> scores;
    for (int t = 0; t < tokens; ++t) {
      const std::span<const std::int32_t> held(positions.data(), static_cast<std::size_t>(t) + 1);
      const std::vector<float> attention(held.size(), 1.F / static_cast<float>(held.size()));
      scores.push_back(0);
      policy->update({.index = t,
                      .tokens = held,
                      .attention = attention,
                      .keys = {keys.data(), 2, held},
                      .values = {values.data(), kValueDim, held},
                      .kinds = {},
                      .overflow = t + 1 == tokens ? tokens - context.budget : 0},
                     scores);
    }
    return scores;
  }

  /// The mean over the query heads of |v W_O|_1, from the definition.
  double length(int token) const {
    double sum = 0;
    for (const std::vector<float>& matrix : projections) {
      for (int h = 0; h < kHidden; ++h) {
        double x = 0;
        for (int d = 0; d < kValueDim; ++d) {
          x += double{values[static_cast<std::size_t>(token * kValueDim + d)]} *
               double{matrix[static_cast<std::size_t>(d * kHidden + h)]};
        }
        sum += std::abs(x);
      }
    }
    return sum / static_cast<double>(projections.size());
  }

  double key_norm(int token) const {
    const auto at = static_cast<std::size_t>(2 * token);
    return std::hypot(double{keys[at]}, double{keys[at + 1]});
  }
};

std::vector<int> by_score(const std::vector<double>& scores) {
  std::vector<int> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return scores[static_cast<std::size_t>(a)] > scores[static_cast<std::size_t>(b)];
  });
  return order;
}

TEST_CASE("critical keeps a first part by score, then by score times projected value",
          "[policies]") {
  const Example example;
  for (const int first : {0, 1, 3, 6}) {
    const Spec spec("knorm+critical:epsilon=0.25,first=" + std::to_string(first));
    std::vector<double> alone;
    for (int t = 0; t < example.tokens; ++t) alone.push_back(-example.key_norm(t));
    const std::vector<int> order = by_score(alone);
    std::vector<double> expected(alone.size());
    for (std::size_t place = 0; place < order.size(); ++place) {
      const int token = order[place];
      const double product =
          (alone[static_cast<std::size_t>(token)] + 0.25) * example.length(token);
      expected[static_cast<std::size_t>(token)] =
          place < static_cast<std::size_t>(first) ? 100 - static_cast<double>(place) : product;
    }
    CAPTURE(first);
    CHECK(by_score(example.scores(spec, example.context(6))) == by_score(expected));
  }
}

TEST_CASE("the policy within a combinator sees its own scores", "[policies]") {
  const Example example;
  const Context context = example.context(6);
  std::vector<double> alone = example.scores(Spec("h2o:recent=0"), context);
  for (int t = 0; t < example.tokens; ++t) {
    alone[static_cast<std::size_t>(t)] *= example.length(t);
  }
  const Spec spec("h2o:recent=0+critical:first=0,epsilon=0");
  CHECK(by_score(example.scores(spec, context)) == by_score(alone));
  // All tokens are of the first part.
  CHECK(by_score(example.scores(Spec("h2o:recent=0+critical:first=12"), context)) ==
        by_score(example.scores(Spec("h2o:recent=0"), context)));
}

TEST_CASE("protected tokens take places of the first part, or none", "[policies]") {
  const Example example;
  const Context context = example.context(6);
  // Four tokens are protected: of a first part of five, one more is chosen by score.
  const auto chosen = [&](const std::string& spec) {
    std::vector<double> scores = example.scores(Spec(spec), context);
    scores.resize(8);
    return by_score(scores);
  };
  const std::string protects = "knorm+protect:first=0,last=4+critical:first=";
  CHECK(chosen(protects + "5,protected=count") == chosen(protects + "1,protected=apart"));
  CHECK(chosen(protects + "5,protected=count") != chosen(protects + "5,protected=apart"));
}

TEST_CASE("critical names what it cannot change, and what it misses", "[policies]") {
  CHECK_THROWS_WITH(Spec("topk+critical"), Catch::Contains("it selects"));
  CHECK_THROWS_WITH(Spec("full+critical"), Catch::Contains("evicts nothing"));
  CHECK_THROWS_WITH(Spec("subgen+critical"), Catch::Contains("an estimator scores no tokens"));
  CHECK_THROWS_WITH(Spec("schedule:file=x+critical"), Catch::Contains("a schedule says when"));
  CHECK_THROWS_WITH(Spec("optimal+critical"), Catch::Contains("an oracle plans"));
  CHECK_THROWS_WITH(Spec("spatten+critical"), Catch::Contains("of all layers"));
  CHECK_THROWS_WITH(Spec("tova:scope=layer+critical"), Catch::Contains("+shared"));
  CHECK_THROWS_WITH(Spec("knorm+critical+critical"), Catch::Contains("twice"));
  CHECK_NOTHROW(Spec("tova+critical+shared"));
  CHECK_NOTHROW(Spec("tova+shared+critical"));
  const Example example;
  CHECK_THROWS_WITH(
      example.scores(Spec("knorm+critical"), {.budget = 6, .unit = "text layer 1 KV head 0"}),
      "text layer 1 KV head 0: expected the output projection W_O that +critical needs, found "
      "nothing; record it with --also output_projection, or leave +critical out");
  CHECK(Spec("knorm+critical").needs() == TraceNeeds{.output_projection = true});
}

}  // namespace kvsim::critical_test
