#include "sim/plugin/c_policy.h"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>

#include "sim/base/errors.h"

namespace kvsim::c_policy_test {

using Catch::Matchers::Message;

constexpr std::size_t kDim = 2;

/// A step with tokens 0, 2 and 3 of a text of five.
struct SomeStep {
  std::vector<std::int32_t> tokens{0, 2, 3};
  std::vector<float> attention{.5F, .2F, .3F};
  std::vector<float> keys{0, 1, 10, 11, 20, 21, 30, 31, 40, 41};
  std::vector<float> values{0, -1, -2, -3, -4};
  std::vector<float> first_query{5, 6};
  std::vector<float> second_query{7, 8};
  std::vector<std::span<const float>> queries{first_query, second_query};
  std::vector<std::int32_t> selected;
  std::vector<double> scores{3, 2, 1};

  void run(CPolicy& policy) {
    policy.update({.index = 3,
                   .tokens = tokens,
                   .attention = attention,
                   .keys = {keys.data(), kDim, tokens},
                   .values = {values.data(), 1, tokens},
                   .queries = queries,
                   .selected = selected,
                   .overflow = 1},
                  scores);
  }
};

std::vector<float> copy(const float* rows, int count) { return {rows, rows + count}; }

kvsim_step last_seen;
std::vector<float> seen_keys;
std::vector<float> seen_values;
std::vector<float> seen_queries;

std::int32_t look(const kvsim_step* step, double*, void*) {
  last_seen = *step;
  if (step->keys != nullptr) seen_keys = copy(step->keys, step->num_tokens * step->head_dim);
  if (step->values != nullptr) {
    seen_values = copy(step->values, step->num_tokens * step->value_dim);
  }
  if (step->queries != nullptr) {
    seen_queries = copy(step->queries, step->num_queries * step->head_dim);
  }
  return 0;
}

std::int32_t accumulate(const kvsim_step* step, double* scores, void*) {
  for (int i = 0; i < step->num_tokens; ++i) scores[i] += step->attention[i];
  return 0;
}

std::int32_t refuse(const kvsim_step*, double*, void*) { return -7; }

std::int32_t forget(const kvsim_step*, double* scores, void*) {
  scores[1] = std::nan("");
  return 0;
}

std::int32_t count_calls(const kvsim_step*, double* scores, void* state) {
  scores[0] = ++*static_cast<int*>(state);
  return 0;
}

TEST_CASE("a function of C gets scores and attention in place") {
  SomeStep step;
  CPolicy policy({.owner = "policy mine", .update = accumulate});
  step.run(policy);
  CHECK(step.scores == std::vector<double>{3.F + .5F, 2. + .2F, 1. + .3F});
  policy = CPolicy({.owner = "policy mine", .update = look});
  step.run(policy);
  CHECK(last_seen.attention == step.attention.data());
  CHECK(last_seen.tokens == step.tokens.data());
  CHECK(last_seen.index == 3);
  CHECK(last_seen.num_tokens == 3);
  CHECK(last_seen.overflow == 1);
}

TEST_CASE("a function of C sees vectors of the cache alone, and only those that it asks for") {
  SomeStep step;
  CPolicy blind({.owner = "policy mine", .update = look});
  step.run(blind);
  CHECK(last_seen.keys == nullptr);
  CHECK(last_seen.values == nullptr);
  CHECK(last_seen.queries == nullptr);
  CHECK(last_seen.full_attention == nullptr);
  CPolicy seeing({.owner = "policy mine",
                  .rules = {.sees_values = true, .sees_queries = true},
                  .sees_keys = true,
                  .update = look});
  step.run(seeing);
  CHECK(seen_keys == std::vector<float>{0, 1, 20, 21, 30, 31});
  CHECK(seen_values == std::vector<float>{0, -2, -3});
  CHECK(seen_queries == std::vector<float>{5, 6, 7, 8});
  CHECK(last_seen.head_dim == 2);
  CHECK(last_seen.value_dim == 1);
  CHECK(last_seen.num_queries == 2);
}

TEST_CASE("a function of C sees what the model selected") {
  SomeStep step;
  CPolicy policy({.owner = "policy mine", .update = look});
  step.run(policy);
  CHECK(last_seen.selected == nullptr);
  CHECK(last_seen.num_selected == 0);
  step.selected = {1, 3};
  step.run(policy);
  REQUIRE(last_seen.num_selected == 2);
  CHECK(last_seen.selected[0] == 1);
  CHECK(last_seen.selected[1] == 3);
}

TEST_CASE("what a function of C returns but 0 is an error that names policy, number and step") {
  SomeStep step;
  CPolicy policy({.owner = "policy mine", .update = refuse});
  CHECK_THROWS_MATCHES(step.run(policy), DataError,
                       Message("policy mine: update() returned -7 at step 3"));
}

TEST_CASE("a score that a function of C sets to NaN is an error") {
  SomeStep step;
  CPolicy policy({.owner = "policy mine", .update = forget});
  CHECK_THROWS_MATCHES(
      step.run(policy), DataError,
      Message("policy mine: update() set a score to NaN at step 3; expected a number"));
}

TEST_CASE("the state of a function of C is made for the first step and destroyed at the end") {
  int made = 0;
  int destroyed = 0;
  SomeStep step;
  {
    CPolicy policy({.owner = "policy mine", .update = count_calls, .make_state = [&] {
                      ++made;
                      return std::shared_ptr<void>(new int(0), [&](void* state) {
                        ++destroyed;
                        delete static_cast<int*>(state);
                      });
                    }});
    CHECK(made == 0);
    step.run(policy);
    step.run(policy);
    CHECK(step.scores[0] == 2);
  }
  CHECK(made == 1);
  CHECK(destroyed == 1);
}

}  // namespace kvsim::c_policy_test
