#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "oracle/attention_columns.h"
#include "oracle/concave.h"
#include "oracle/loss_bounds.h"
#include "oracle/simulation.h"
#include "tests/oracle/small_attention.h"

namespace kvsim::greedy_test {

using namespace oracle_test;

/// Computes every loss at every removal.
class EveryLoss final : public EvictionRule {
 public:
  EveryLoss(const AttentionColumns& columns, Concave h)
      : h_(h),
        columns_(columns),
        kept_(static_cast<std::size_t>(columns.num_tokens()), 0),
        prepared_(kept_.size(), prepare(h, 0)) {}

  void arrive(int step) override { change(step, 1); }
  void leave(int token) override { change(token, -1); }

  double loss(int token, int step) override {
    return total_loss(h_, kept_.data() + step + 1, prepared_.data() + step + 1,
                      columns_.from(token, step + 1), columns_.num_tokens() - step - 1);
  }

  const std::vector<double>& kept() const { return kept_; }
  const std::vector<double>& prepared() const { return prepared_; }

 private:
  void change(int token, double sign) {
    for (int step = token; step < columns_.num_tokens(); ++step) {
      const auto place = static_cast<std::size_t>(step);
      kept_[place] += sign * columns_.from(token, token)[step - token];
      prepared_[place] = prepare(h_, kept_[place]);
    }
  }

  Concave h_;
  const AttentionColumns& columns_;
  std::vector<double> kept_;
  std::vector<double> prepared_;
};

/// Rows of attention of which a few tokens have nearly all: what is kept is often next to nothing.
Rows peaked_rows(int tokens, std::uint64_t seed) {
  Rows rows = random_rows(tokens, seed);
  for (std::vector<float>& row : rows) {
    const float most = *std::max_element(row.begin(), row.end());
    float sum = 0;
    for (float& share : row) sum += share = std::exp(2000 * (share - most));
    for (float& share : row) share /= sum;
  }
  return rows;
}

TEST_CASE("greedy removes what it would if it computed every loss", "[greedy]") {
  constexpr int kTokens = 230;  // blocks of steps are summed, and summed again
  for (const std::string name : {"identity", "sqrt", "log1p"}) {
    for (const bool is_peaked : {false, true}) {
      const Rows rows = is_peaked ? peaked_rows(kTokens, 3) : random_rows(kTokens, 2);
      for (const int prompt : {0, 150}) {
        for (const int interval : {1, 16}) {
          const Protocol protocol{.mode = prompt == 0 ? Mode::stream : Mode::prefill,
                                  .eviction_interval = interval};
          const FutureAttention attention(rows, prompt, protocol);
          const AttentionColumns columns(attention);
          EveryLoss rule(columns, parse_concave(name));
          CAPTURE(name, is_peaked, prompt, interval);
          CHECK(plans("greedy:h=" + name, attention, {70}).front().schedule ==
                simulate(attention, 70, rule));
        }
      }
    }
  }
}

TEST_CASE("a bound of what a removal loses is near it and never above it", "[greedy]") {
  constexpr int kTokens = 200;
  for (const Concave h : {Concave::identity, Concave::sqrt, Concave::log1p}) {
    for (const bool is_peaked : {false, true}) {
      const AttentionColumns columns{
          FutureAttention(is_peaked ? peaked_rows(kTokens, 5) : random_rows(kTokens, 6))};
      EveryLoss losses(columns, h);
      LossBounds bounds(h, columns, losses.kept(), losses.prepared());
      double sum = 0;
      double sum_of_bounds = 0;
      for (int step = 0; step < kTokens - 1; ++step) {
        losses.arrive(step);
        bounds.add(step);
        if (step < 40) continue;
        bounds.find(step);
        for (int token = step - 40; token <= step; ++token) {
          CAPTURE(is_peaked, step, token);
          REQUIRE(bounds.of(token) <= losses.loss(token, step));
          sum += losses.loss(token, step);
          sum_of_bounds += bounds.of(token);
        }
        losses.leave(step - 40);
        bounds.remove(step - 40);
      }
      CHECK(sum_of_bounds > (is_peaked ? 0.4 : 0.8) * sum);
    }
  }
}

TEST_CASE("columns of attention are its rows turned", "[greedy]") {
  const Rows rows = random_rows(150, 8);
  const AttentionColumns columns{FutureAttention(rows, 30, {.mode = Mode::prefill})};
  for (int step = 0; step < 150; ++step) {
    for (int token = 0; token <= step; ++token) {
      const auto place = static_cast<std::size_t>(token);
      const float expected = step < 30 ? 0 : rows[static_cast<std::size_t>(step)][place];
      REQUIRE(*columns.from(token, step) == expected);
    }
  }
}

}  // namespace kvsim::greedy_test
