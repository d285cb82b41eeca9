// Replays with a store against the same replay written out: after its own step each token is what
// the store says.

#include <catch2/catch.hpp>

#include "policies/registry/registry.h"
#include "sim/outputs/stored_cache.h"
#include "tests/support/compare.h"
#include "tests/support/stepwise_reference.h"
#include "tests/support/units.h"
#include "traces/unit_seed.h"

namespace kvsim::stored_replay_test {

using namespace test_support;

constexpr std::uint64_t kSeed = 3;

std::vector<double> doubles(std::span<const float> numbers) {
  return {numbers.begin(), numbers.end()};
}

/// The output of a query head at step `t` over all `tokens`, and the attention of those `held`.
HeadStep attend(const Unit& unit, const Store& store, int head, int t, bool is_recorded,
                const std::vector<std::int32_t>& tokens, const std::vector<std::int32_t>& held) {
  const auto row = [](const Matrix& matrix, int index) {
    return std::span<const float>(matrix.row(index).data(),
                                  static_cast<std::size_t>(matrix.cols()));
  };
  const std::vector<double> query = doubles(row(unit.query[static_cast<std::size_t>(head)], t));
  std::vector<double> weight;
  HeadStep step{{}, std::vector<double>(static_cast<std::size_t>(unit.value.cols()))};
  double sum = 0;
  for (const std::int32_t token : tokens) {
    StoredToken stored{row(unit.key, token), row(unit.value, token)};
    if (token != t && !is_recorded) stored = store.at(token);
    double logit = 0;
    for (std::size_t c = 0; c < query.size(); ++c) logit += query[c] * double{stored.key[c]};
    weight.push_back(std::exp(double{unit.scale} * logit + stored.log_weight));
    sum += weight.back();
    for (std::size_t c = 0; c < step.output.size(); ++c) {
      step.output[c] += weight.back() * double{stored.value[c]};
    }
  }
  for (double& x : step.output) x /= sum;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (std::binary_search(held.begin(), held.end(), tokens[i])) {
      step.attention.push_back(weight[i] / sum);
    }
  }
  return step;
}

/// Relative errors of the outputs, [query heads, steps], and the most bytes, when tokens leave as
/// `evicted_after` says.
struct Stored {
  Matrix error;
  std::size_t bytes = 0;
};

Stored replay_stored(const Unit& unit, const StoreKind& kind, StoreContext context, int prompt,
                     const Evictions& evicted_after) {
  context.shape = shape_of(unit);
  context.scale = unit.scale;
  context.seed = unit_seed(kSeed, unit.name);
  const auto store = kind.make(context);
  const int n = unit.num_tokens();
  Stored result{Matrix::Zero(unit.group_size(), n - prompt), 0};
  const ReferenceUnit reference(unit);
  std::vector<std::int32_t> held, evicted;
  for (int t = 0; t < n; ++t) {
    const auto row = [&](const Matrix& matrix) {
      return std::span<const float>(matrix.row(t).data(), static_cast<std::size_t>(matrix.cols()));
    };
    store->admit(row(unit.key), row(unit.value));
    held.push_back(t);
    std::vector<std::int32_t> tokens = held;
    tokens.insert(tokens.end(), evicted.begin(), evicted.end());
    std::sort(tokens.begin(), tokens.end());
    std::vector<float> attention(held.size());
    for (int head = 0; head < unit.group_size(); ++head) {
      const HeadStep step = attend(unit, *store, head, t, t < prompt, tokens, held);
      for (std::size_t i = 0; i < attention.size(); ++i) {
        attention[i] += static_cast<float>(step.attention[i] / unit.group_size());
      }
      if (t < prompt) continue;
      const auto& full = reference.heads[static_cast<std::size_t>(head)].output;
      std::vector<double> difference = full[static_cast<std::size_t>(t)];
      const double size = norm(difference);
      for (std::size_t c = 0; c < difference.size(); ++c) difference[c] -= step.output[c];
      result.error(head, t - prompt) = static_cast<float>(norm(difference) / size);
    }
    const std::vector<std::int32_t> attended = held;
    std::erase_if(held, [&](std::int32_t token) {
      return evicted_after[static_cast<std::size_t>(token)] == t;
    });
    if (kind.keeps_evicted()) {
      std::set_difference(attended.begin(), attended.end(), held.begin(), held.end(),
                          std::back_inserter(evicted));
    }
    const bool is_whole = t + 1 < prompt;
    std::vector<std::span<const float>> queries;
    for (const Matrix& query : unit.query) queries.push_back(row(query));
    store->settle({t, attended, attention, held, is_whole, queries});
    if (!is_whole) result.bytes = std::max(result.bytes, store->bytes());
  }
  return result;
}

void check(const Unit& unit, const std::string& spec, int budget, Mode mode) {
  CAPTURE(spec, budget, unit.num_tokens(), Protocol{.mode = mode}.name());
  const Rules rules = Spec(spec).rules({.budget = budget});
  const ReplayOptions options{.protocol = {.mode = mode}, .seed = kSeed, .trajectories = true};
  const Outcome outcome =
      replay(unit, {{Spec(spec), budget}}, options, *make_cpu_backend()).front();
  StoreContext context;
  if (unit.rope) context.rotation = Rotation{.inverse_frequency = unit.rope->inverse_frequency};
  const int prompt = mode == Mode::prefill ? unit.prompt_length : 0;
  const Stored expected =
      replay_stored(unit, *rules.store, context, prompt, outcome.trajectory.evicted_after);
  const Matrix difference = (outcome.trajectory.output_error - expected.error).cwiseAbs();
  CHECK(difference.maxCoeff() <= 2e-5 * std::max(1.F, expected.error.maxCoeff()));
  CHECK(expected.error.maxCoeff() > 0);
  CHECK(outcome.result.cache_bytes == static_cast<std::int64_t>(expected.bytes));
}

TEST_CASE("a step attends to its own token as recorded and to the others as they are stored") {
  const Mode mode = GENERATE(Mode::stream, Mode::prefill);
  const Unit unit = random_unit(
      {.tokens = 60, .head_dim = 8, .value_dim = 5, .group = 2, .prompt_length = 21}, 71);
  Unit half = unit;
  half.key_bytes = half.value_bytes = 2;
  int num_stores = 0;
  for (const CombinatorInfo& combinator : combinators()) {
    const Rules rules = Spec("window+" + combinator.name).rules({.budget = 8});
    if (!rules.store || rules.joins_tokens()) continue;  // those that merge: merged_replay_test.cpp
    ++num_stores;
    for (const char* policy : {"full", "window", "h2o", "tova"}) {
      check(unit, policy + ("+" + combinator.name), 17, mode);
    }
    check(half, "h2o+" + combinator.name, 17, mode);
  }
  CHECK(num_stores == 4);
  for (const char* spec :
       {"h2o+kivi:bits=1,group=2,residual=4", "full+kivi:group=1,residual=5",
        "window+kivi:bits=3,group=4,residual=8", "h2o+mikv:high=16,balancer=no",
        "tova+mikv:high=4,group=3", "h2o+kvquant:bits=2,outliers=0.1,calibration=9",
        "window+turboquant:residual=no"}) {
    check(unit, spec, 17, mode);
  }
}

}  // namespace kvsim::stored_replay_test
