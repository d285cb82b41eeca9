#include <Eigen/Core>
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <numbers>

#include "sim/base/random_bits.h"
#include "tests/support/kept_tokens.h"

namespace kvsim::expected_attention_test {

using namespace policies_test;
using Kept = std::vector<std::int32_t>;

/// The tokens left after a prompt as long as the table of queries.
Kept kept_of(const std::string& spec, int budget, Shown shown) {
  const std::size_t n = shown.queries.size();
  shown.attention = any_attention(n);
  shown.prompt = static_cast<int>(n);
  if (!shown.rotation) shown.rotation.emplace();
  Kept kept;
  const auto left = evicted_after(Spec(spec), budget, shown);
  for (std::size_t token = 0; token < n; ++token) {
    if (left[token] == shown.prompt) kept.push_back(static_cast<std::int32_t>(token));
  }
  return kept;
}

// Arithmetic by hand, without rotation. After the sink the queries have the mean (1, 1), and their
// second dimension the variance 2/3. Of the keys after the sink the means of the logits are 1, 1
// and 1.2; half of their variance adds 0, 1/3 and 0. Shares of exp(): 0.28, 0.39, 0.34.
Shown by_hand() {
  return {.attention = {},
          .keys = {{-5, -5}, {1, 0}, {0, 1}, {1.2F, 0}},
          .values = {{1}, {1}, {1}, {1}},
          .queries = {{{9, 9}}, {{1, 0}}, {{1, 2}}, {{1, 1}}}};
}

TEST_CASE("expected-attention keeps the sinks and what queries to come will attend to most",
          "[policies]") {
  const std::string one_sink = "expected-attention:sinks=1";
  CHECK(kept_of(one_sink, 2, by_hand()) == Kept{0, 2});
  CHECK(kept_of(one_sink, 3, by_hand()) == Kept{0, 2, 3});
  CHECK(kept_of(one_sink + ",covariance=no", 2, by_hand()) == Kept{0, 3});
}

TEST_CASE("expected-attention without sinks counts every query and keeps no token for its place",
          "[policies]") {
  // By the mean of all queries, (3, 3), what is opposite to it goes.
  CHECK(kept_of("expected-attention:sinks=0,covariance=no", 3, by_hand()) == Kept{1, 2, 3});
  CHECK(kept_of("expected-attention:sinks=2", 2, by_hand()) == Kept{0, 1});
}

TEST_CASE("expected-attention multiplies by the length of the value", "[policies]") {
  Shown shown = by_hand();
  shown.values[1] = {2};  // 0.55
  CHECK(kept_of("expected-attention:sinks=1", 2, shown) == Kept{0, 1});
  CHECK(kept_of("expected-attention:sinks=1,values=no", 2, shown) == Kept{0, 2});
}

TEST_CASE("expected-attention adds epsilon before the length of the value", "[policies]") {
  Shown shown = by_hand();
  shown.values[1] = {1.3F};  // 0.36; with an epsilon of 1 it is 1.66 against 1.39
  CHECK(kept_of("expected-attention:sinks=1", 2, shown) == Kept{0, 2});
  CHECK(kept_of("expected-attention:sinks=1,epsilon=1", 2, shown) == Kept{0, 1});
}

TEST_CASE("expected-attention rotates queries on average to the positions to come", "[policies]") {
  // A quarter turn per position. Before rotation every query is (1, 0), at position 4 too, and at
  // position 5 it is (0, 1).
  const std::vector<double> frequency = {std::numbers::pi / 2};
  const Shown shown{.attention = {},
                    .keys = {{0, 0}, {1, 0}, {0.8F, 0.8F}, {0, 0}},
                    .values = {{1}, {1}, {1}, {1}},
                    .queries = {{{1, 0}}, {{0, 1}}, {{-1, 0}}, {{0, -1}}},
                    .rotation = Rotation{.inverse_frequency = frequency}};
  CHECK(kept_of("expected-attention:sinks=0,future=1", 1, shown) == Kept{1});
  CHECK(kept_of("expected-attention:sinks=0,future=2", 1, shown) == Kept{2});
}

TEST_CASE("expected-attention of a prompt no longer than its sinks keeps the first tokens",
          "[policies]") {
  CHECK(kept_of("expected-attention:sinks=4", 3, by_hand()) == Kept{0, 1, 2});
  CHECK(kept_of("expected-attention:sinks=9", 1, by_hand()) == Kept{0});
}

/// The definition with matrices, as the press of kvpress computes it, and a choice of rotations.
struct Definition {
  int tokens = 30;
  int dim = 6;
  int heads = 2;
  std::vector<double> frequency = {1, 0.1};  // of 4 dimensions of the 6
  bool interleaved = false;
  double factor = 1.25;
  double scale = 0.4;

  double number(std::uint64_t which, int row, int column) const {
    const auto bits = random_bits(random_bits(which, static_cast<std::uint64_t>(row)),
                                  static_cast<std::uint64_t>(column));
    return static_cast<double>(bits % 2001) / 1000 - 1;
  }

  Eigen::VectorXd vector(std::uint64_t which, int row) const {
    return Eigen::VectorXd::NullaryExpr(
        dim, [&](Eigen::Index i) { return number(which, row, static_cast<int>(i)); });
  }

  Eigen::MatrixXd rotation(int position) const {
    Eigen::MatrixXd turn = Eigen::MatrixXd::Identity(dim, dim);
    const int pairs = static_cast<int>(frequency.size());
    for (int pair = 0; pair < pairs; ++pair) {
      const int a = interleaved ? 2 * pair : pair;
      const int b = interleaved ? a + 1 : a + pairs;
      const double angle = position * frequency[static_cast<std::size_t>(pair)];
      turn(a, a) = turn(b, b) = factor * std::cos(angle);
      turn(a, b) = -factor * std::sin(angle);
      turn(b, a) = factor * std::sin(angle);
    }
    return turn;
  }

  Shown shown() const {
    const auto floats = [](const Eigen::VectorXd& x) {
      const Eigen::VectorXf rounded = x.cast<float>();
      return std::vector<float>(rounded.begin(), rounded.end());
    };
    Shown shown{.attention = {}, .scale = static_cast<float>(scale)};
    for (int t = 0; t < tokens; ++t) {
      auto& of_step = shown.queries.emplace_back();
      for (int h = 0; h < heads; ++h) of_step.push_back(floats(rotation(t) * vector(10 + h, t)));
      shown.keys.push_back(floats(rotation(t) * vector(1, t)));
      shown.values.push_back(floats(vector(2, t)));
    }
    shown.rotation = Rotation{frequency, interleaved, factor};
    return shown;
  }

  Kept kept(int budget, int future, int sinks, bool covariance, bool values, double epsilon) const {
    Eigen::MatrixXd ahead = Eigen::MatrixXd::Zero(dim, dim);
    for (int i = 0; i < future; ++i) ahead += rotation(tokens + i) / future;
    std::vector<std::pair<double, std::int32_t>> order;
    for (int j = sinks; j < tokens; ++j) order.emplace_back(0, j);
    for (int h = 0; h < heads; ++h) {
      Eigen::MatrixXd queries(tokens - sinks, dim);
      for (int t = sinks; t < tokens; ++t) queries.row(t - sinks) = vector(10 + h, t).transpose();
      const Eigen::RowVectorXd mean = queries.colwise().mean();
      const Eigen::MatrixXd centred = queries.rowwise() - mean;
      const Eigen::MatrixXd product = centred.transpose() * centred / (tokens - sinks);
      Eigen::VectorXd share(tokens - sinks);
      for (int j = sinks; j < tokens; ++j) {
        const Eigen::VectorXd key = rotation(j) * vector(1, j);
        double logit = scale * key.dot(ahead * mean.transpose());
        if (covariance) {
          logit += scale * scale / 2 * key.dot(ahead * product * ahead.transpose() * key);
        }
        share[j - sinks] = std::exp(logit);
      }
      share /= share.sum() * heads;
      for (int i = 0; i < tokens - sinks; ++i) order[static_cast<std::size_t>(i)].first += share[i];
    }
    for (auto& [score, token] : order) {
      if (values) score = (score + epsilon) * vector(2, token).norm();
    }
    std::sort(order.rbegin(), order.rend());
    Kept kept;
    for (int j = 0; j < std::min(sinks, budget); ++j) kept.push_back(j);
    for (std::size_t i = 0; std::ssize(kept) < budget; ++i) kept.push_back(order[i].second);
    std::sort(kept.begin(), kept.end());
    return kept;
  }
};

TEST_CASE("expected-attention keeps what its definition keeps", "[policies]") {
  const Definition definition{.interleaved = GENERATE(false, true)};
  const Shown shown = definition.shown();
  for (const bool covariance : {true, false}) {
    for (const bool values : {true, false}) {
      for (const int future : {1, 5, 512}) {
        for (const int sinks : {0, 4}) {
          for (const double epsilon : {0.0, 0.02}) {
            const std::string spec = fmt::format(
                "expected-attention:future={},sinks={},covariance={},values={},epsilon={}", future,
                sinks, covariance ? "yes" : "no", values ? "yes" : "no", epsilon);
            for (const int budget : {1, 4, 5, 12, 29}) {
              CAPTURE(spec, budget, definition.interleaved);
              CHECK(kept_of(spec, budget, shown) ==
                    definition.kept(budget, future, sinks, covariance, values, epsilon));
            }
          }
        }
      }
    }
  }
}

TEST_CASE("expected-attention is refused where a cache is cut more than once", "[policies]") {
  CHECK(Spec("expected-attention").rules({}).prompt_only);
  CHECK(Spec("expected-attention").rules({}).sees_rotation);
  CHECK_FALSE(Spec("expected-attention:values=no").rules({}).sees_values);
}

}  // namespace kvsim::expected_attention_test
