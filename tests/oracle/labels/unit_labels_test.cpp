#include "oracle/labels/unit_labels.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "policies/registry/spec.h"
#include "tests/oracle/small_attention.h"
#include "tests/support/units.h"

namespace kvsim::unit_labels_test {

using namespace oracle_test;
using test_support::random_unit;
using test_support::uniform_unit;

AttentionLabels labels_of(const FutureAttention& attention, int block) {
  AttentionLabeller labeller(attention, block);
  for (int step = 0; step < attention.num_tokens(); ++step) {
    labeller.add(step, attention.row(step));
  }
  return std::move(labeller).finish();
}

TEST_CASE("labels of the attention are sums over later measured steps", "[labels]") {
  const int tokens = 23;
  const int prompt = GENERATE(0, 1, 9, 22);
  const int block = GENERATE(1, 4, 7, 100);
  const FutureAttention attention(random_rows(tokens, 5), prompt, {.mode = Mode::prefill});
  const AttentionLabels labels = labels_of(attention, block);
  const int num_blocks = (tokens - prompt + block - 1) / block;
  REQUIRE(labels.future_attention_blocks.size() ==
          static_cast<std::size_t>(num_blocks) * static_cast<std::size_t>(tokens));
  for (int token = 0; token < tokens; ++token) {
    CAPTURE(prompt, block, token);
    const auto j = static_cast<std::size_t>(token);
    double sum = 0;
    int next = tokens;
    for (int step = tokens - 1; step > token && step >= prompt; --step) {
      sum += double{attention.row(step)[j]};
      if (attention.row(step)[j] > 1.0F / static_cast<float>(step + 1)) next = step;
    }
    CHECK(labels.future_attention[j] == Approx(sum).margin(1e-12));
    CHECK(labels.next_access[j] == next);
    for (int b = 0; b < num_blocks; ++b) {
      const int first = prompt + b * block;
      const int end = std::min(tokens, first + block);
      double in_block = 0;
      for (int step = std::max(first, token + 1); step < end; ++step) {
        in_block += double{attention.row(step)[j]};
      }
      const std::size_t at = static_cast<std::size_t>(b) * static_cast<std::size_t>(tokens) + j;
      CHECK(labels.future_attention_blocks[at] == Approx(in_block / (end - first)).margin(1e-12));
    }
  }
}

TEST_CASE("the own step of a token is no later step, and an even share is no access", "[labels]") {
  const FutureAttention attention(Rows{{1}, {0.5, 0.5}, {0.25, 0.5, 0.25}, {0, 0.25, 0.5, 0.25}});
  const AttentionLabels labels = labels_of(attention, 2);
  CHECK(labels.future_attention == std::vector<double>{0.75, 0.75, 0.5, 0});
  CHECK(labels.future_attention_blocks ==
        std::vector<double>{0.25, 0, 0, 0, 0.125, 0.375, 0.25, 0});
  CHECK(labels.next_access == std::vector<std::int32_t>{4, 2, 3, 4});
}

/// A future of a unit of 60 tokens under a protocol.
struct Labelled {
  Labelled(Mode mode, int interval)
      : future(unit, eviction_steps(unit, {.mode = mode, .eviction_interval = interval}),
               *backend) {}

  std::unique_ptr<Backend> backend = make_cpu_backend();
  Unit unit = random_unit({.tokens = 60, .prompt_length = 20}, 11);
  Future future;
};

TEST_CASE("a token is labelled with the step after which a replay of optimal drops it",
          "[labels]") {
  const Mode mode = GENERATE(Mode::stream, Mode::prefill);
  const int interval = GENERATE(1, 4);
  const Labelled labelled(mode, interval);
  const std::vector<int> budgets = {30, 6, 100};
  const UnitLabels labels = label_unit(labelled.future, budgets, 16);
  REQUIRE(labels.optimal.size() == budgets.size());
  for (std::size_t i = 0; i < budgets.size(); ++i) {
    CAPTURE(interval, budgets[i]);
    const ReplayOptions options{.protocol = {.mode = mode, .eviction_interval = interval},
                                .trajectories = true};
    const Configuration optimal{.policy = Spec("optimal"), .budget = budgets[i]};
    const Outcome outcome = replay(labelled.unit, {optimal}, options, *labelled.backend).front();
    CHECK(labels.optimal[i].schedule == outcome.trajectory.evicted_after);
    CHECK(labels.optimal[i].slot_price == outcome.trajectory.slot_price);
  }
}

// Strong duality: at these prices the relaxed problem, in which any number of tokens may stay if
// they pay for their slots, retains what the schedule retains.
TEST_CASE("slot prices prove the schedule and are 0 while there is room", "[labels]") {
  const Mode mode = GENERATE(Mode::stream, Mode::prefill);
  const Labelled labelled(mode, 1);
  const FutureAttention& attention = labelled.future.attention();
  const int budget = 12;
  const Plan plan = std::move(label_unit(labelled.future, std::vector{budget}, 16).optimal.front());
  const int tokens = attention.num_tokens();
  const int first = std::max(budget, attention.first_eviction());
  double retained = 0;
  double bound = 0;
  for (int step = attention.first_measured(); step < tokens; ++step) {
    bound += double{attention.row(step)[static_cast<std::size_t>(step)]};
  }
  retained = bound;
  for (int step = 0; step < tokens; ++step) {
    const double price = plan.slot_price[static_cast<std::size_t>(step)];
    CHECK(price >= 0);
    if (step < first) CHECK(price == 0);
    bound += budget * price;
  }
  for (int token = 0; token < tokens; ++token) {
    double gain = 0;
    double best = 0;
    for (int step = std::max(token, attention.first_eviction()) + 1; step < tokens; ++step) {
      const double received = double{attention.row(step)[static_cast<std::size_t>(token)]};
      if (plan.schedule[static_cast<std::size_t>(token)] >= step) retained += received;
      gain += received - plan.slot_price[static_cast<std::size_t>(step) - 1];
      best = std::max(best, gain);
    }
    bound += best;
  }
  CHECK(bound == Approx(retained).margin(1e-4));  // costs are in single precision
}

TEST_CASE("labels of the attention are the same with and without budgets", "[labels]") {
  const Labelled labelled(GENERATE(Mode::stream, Mode::prefill), 1);
  const UnitLabels with = label_unit(labelled.future, std::vector{8}, 16);
  const UnitLabels without = label_unit(labelled.future, {}, 16);
  CHECK(without.optimal.empty());
  CHECK(without.num_blocks == with.num_blocks);
  CHECK(without.attention.future_attention == with.attention.future_attention);
  CHECK(without.attention.future_attention_blocks == with.attention.future_attention_blocks);
  CHECK(without.attention.next_access == with.attention.next_access);
}

TEST_CASE("what a learned sink takes is no token's future attention", "[labels]") {
  Labelled labelled(Mode::stream, 1);
  labelled.unit.sink_logit = {1.5F};
  const Unit& unit = labelled.unit;
  const UnitLabels labels = label_unit(labelled.future, {}, 16);
  std::vector<double> expected(60, 0);
  for (int step = 0; step < 60; ++step) {
    std::vector<double> weights;
    double sum = std::exp(1.5);
    for (int token = 0; token <= step; ++token) {
      const double product = unit.query[0].row(step).dot(unit.key.row(token));
      weights.push_back(std::exp(unit.scale * product));
      sum += weights.back();
    }
    for (std::size_t token = 0; token + 1 < weights.size(); ++token) {
      expected[token] += weights[token] / sum;
    }
  }
  for (std::size_t token = 0; token < expected.size(); ++token) {
    CHECK(labels.attention.future_attention[token] == Approx(expected[token]).epsilon(1e-4));
  }
}

}  // namespace kvsim::unit_labels_test
