#include <algorithm>
#include <catch2/catch.hpp>

#include "policies/registry/registry.h"
#include "sim/attention/attention.h"
#include "sim/base/errors.h"
#include "sim/sweep/allocate.h"
#include "tests/running/running_text.h"
#include "tests/support/nightly.h"
#include "tests/support/variants.h"

namespace kvsim::running_caches_test {

using namespace running_test;
using namespace test_support;

void check_same(const Text& text, const RunningCaches& caches,
                const std::vector<Outcome>& replayed) {
  for (std::size_t i = 0; i < 4; ++i) {
    const UnitName& name = text.units[i].name;
    const CacheUsage usage = caches.usage(name.layer)[static_cast<std::size_t>(name.kv_head)];
    CHECK(usage.evicted_after == replayed[i].trajectory.evicted_after);
    CHECK(static_cast<std::int64_t>(usage.peak_tokens) == replayed[i].result.peak_tokens);
    CHECK(static_cast<std::int64_t>(usage.peak_bytes) == replayed[i].result.cache_bytes);
  }
}

bool can_run(const Spec& policy, int budget) {
  const Rules rules = policy.rules({.budget = budget});
  return !policy.is_oracle() && !rules.selects && !rules.sees_full_attention;
}

// The relative error of each output of a unit, as a replay measures it: [query heads, steps].
Matrix errors_of(const Text& text, std::size_t index, const std::vector<float>& outputs,
                 int first_step) {
  const Unit& unit = text.units[index];
  Matrix errors(unit.group_size(), kTokens - first_step);
  const auto backend = make_cpu_backend();
  const auto pass = backend->attend(unit);
  for (int step = first_step; step < kTokens; ++step) {
    AttentionBlock block;
    pass->compute(step, 1, Outputs::required, block);
    for (int head = 0; head < unit.group_size(); ++head) {
      const auto row = static_cast<std::ptrdiff_t>(step) * 4 + unit.name.kv_head * 2 + head;
      const Eigen::Map<const Eigen::VectorXf> found(outputs.data() + row * 6, 6);
      const Eigen::VectorXd full = block.heads[static_cast<std::size_t>(head)].output.row(0);
      errors(head, step - first_step) =
          static_cast<float>((full - found.cast<double>()).norm() / full.norm());
    }
  }
  return errors;
}

// Errors in single precision; where an output is nearly nothing, they are hundreds of times as
// large.
bool are_close(const Matrix& errors, const Matrix& replayed) {
  const auto tolerance = 2e-5F * replayed.array().abs().max(1.F);
  return ((errors - replayed).array().abs() <= tolerance).all();
}

TEST_CASE("caches in a running model evict what a replay evicts, whatever the pieces of the text") {
  const Text text;
  const ReplayOptions asked =
      GENERATE(ReplayOptions{}, ReplayOptions{.protocol = {.mode = Mode::prefill}},
               ReplayOptions{.protocol = {.mode = Mode::prefill, .eviction_interval = 4}},
               ReplayOptions{.protocol = {.paging = {.size = 4}}});
  const auto backend = make_cpu_backend();
  int compared = 0;
  for (const Variant& variant : all_variants()) {
    const int page = asked.protocol.paging.size;
    const int budget = variant.spec.is_estimator() ? 60 : 13 / page * page;
    if (!can_run(variant.spec, budget)) continue;
    const Rules rules = variant.spec.rules({.budget = budget});
    const bool has_interval = asked.protocol.eviction_interval > 1;
    if (variant.spec.is_estimator() && (page > 1 || has_interval)) continue;  // refused, as below
    if (has_interval && !rules.bounded && rules.prunes) continue;
    if (page > 1 && (rules.rest || rules.scope == Scope::model)) continue;  // refused
    ReplayOptions options = options_for(variant.spec, asked);
    options.seed = 3;
    options.trajectories = true;
    const bool is_for_model = rules.scope == Scope::model;
    const auto outcomes =
        replay_together(text.units, {{variant.spec, budget}}, options, *backend).front();
    INFO(variant.spec.text());
    for (const int piece : {1, 9, kTokens}) {
      if (is_for_model ? piece > 1 : is_watched() && piece != 9) continue;
      RunningCaches caches = caches_of(text, {variant.spec, budget}, options);
      const bool feeds_prompt_first = is_for_model && options.protocol.mode == Mode::prefill;
      const auto outputs = feed(text, caches, feeds_prompt_first ? kPrompt : piece, piece);
      check_same(text, caches, outcomes);
      for (std::size_t i = 0; i < 4; ++i) {
        const int first = options.protocol.first_measured(kPrompt);
        const Matrix errors = errors_of(text, i, outputs[i / 2], first);
        CHECK(are_close(errors, outcomes[i].trajectory.output_error));
      }
      ++compared;
    }
  }
  CHECK(compared > (is_watched() ? 30 : 100));
}

void check_some_policies(const Text& text) {
  const auto backend = make_cpu_backend();
  for (const char* name : {"h2o", "tova", "scissorhands", "lookback", "obcache",
                           "sink:positions=slot", "h2o+quant:bits=4", "subgen"}) {
    const ReplayOptions options{.trajectories = true};
    const Configuration configuration{Spec(name), 25};
    const auto outcomes = replay_together(text.units, {configuration}, options, *backend).front();
    RunningCaches caches = caches_of(text, configuration, options);
    const auto outputs = feed(text, caches, 1, 9);
    INFO(name);
    check_same(text, caches, outcomes);
    for (std::size_t i = 0; i < 4; ++i) {
      const Matrix errors = errors_of(text, i, outputs[i / 2], 0);
      CHECK(are_close(errors, outcomes[i].trajectory.output_error));
    }
  }
}

TEST_CASE("caches in a running model keep within what it selects") {
  const Text text = Text::selecting(GENERATE(2, 20));
  check_some_policies(text);
  const auto start = [&](const char* policy, const Text& fed) {
    RunningCaches caches = caches_of(fed, {Spec(policy), 9}, {});
    Rows rows(std::span(fed.units).first(2), 0, 5);
    caches.advance(fed.units[0].name.layer, rows.rows, nullptr);
    Rows more(std::span(text.units).first(2), 5, 3);
    caches.advance(text.units[0].name.layer, more.rows, nullptr);
  };
  CHECK_NOTHROW(start("h2o", text));
  CHECK_THROWS_WITH(start("h2o+rest", text), Catch::Contains("leave +rest out"));
}

TEST_CASE("before its first selection, and where none comes, a layer sees all tokens") {
  Text text = Text::selecting(6);
  Text without = text;
  for (Unit& unit : without.units) unit.selected = nullptr;
  constexpr int kFirst = 30;
  constexpr int kLast = 50;
  for (Unit& unit : text.units) {
    const auto selected = std::make_shared<SelectedTokens>();
    std::vector<std::int32_t> all;
    for (int step = 0; step < kTokens; ++step) {
      all.push_back(step);
      if (step < kFirst || step >= kLast) {
        selected->add(all);
      } else {
        selected->add(unit.selected->at(step));
      }
    }
    unit.selected = selected;
  }
  const Configuration configuration{Spec("tova"), 9};
  const ReplayOptions options{.trajectories = true};
  const auto outcomes =
      replay_together(text.units, {configuration}, options, *make_cpu_backend()).front();
  RunningCaches caches = caches_of(text, configuration, options);
  for (const auto& [begin, end] : {std::pair(0, kFirst), {kFirst, kLast}, {kLast, kTokens}}) {
    const Text& fed = begin == kFirst ? text : without;
    for (std::size_t layer = 0; layer < 2; ++layer) {
      const Rows rows(std::span(fed.units).subspan(2 * layer, 2), begin, end - begin);
      caches.advance(fed.units[2 * layer].name.layer, rows.rows, nullptr);
    }
    caches.end_forward();
  }
  check_same(text, caches, outcomes);
}

TEST_CASE("caches in a running model have its sinks and chunks") {
  const Text text(GENERATE(-1.F, 3.F));
  check_some_policies(text);
  CHECK_THROWS_WITH(caches_of(text, {Spec("h2o+rest"), 9}, {}),
                    Catch::Contains("has chunks of attention, which evicted tokens would leave"));
}

TEST_CASE("a full cache in a running model gives the outputs of full attention") {
  const Text text = GENERATE(false, true) ? Text(2.F) : Text();
  RunningCaches caches = caches_of(text, {Spec("full"), 1}, {});
  const auto outputs = feed(text, caches, 20, 7);
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(errors_of(text, i, outputs[i / 2], 0).isZero(1e-6F));
  }
}

TEST_CASE("a split that is measured on the prompt is that of a replay") {
  const Text text;
  const ReplayOptions options{.protocol = {.mode = Mode::prefill}, .trajectories = true};
  const auto backend = make_cpu_backend();
  constexpr int kBudget = 12;
  bool any_is_uneven = false;
  for (const char* name : {"h2o@adaptive", "h2o@persistence", "snapkv:window=4@adaptive"}) {
    const Spec spec(name);
    const PolicyWindow window = window_of(spec, kBudget);
    std::vector<UnitProfile> profiles;
    for (const Unit& unit : text.units) {
      profiles.push_back(
          measure_profile(unit, {.mode = Mode::prefill}, *backend, {window.voting_steps}));
    }
    const std::vector<int> budgets = allocate(
        spec.allocation(),
        {.tokens = kBudget, .most = kTokens, .length = kPrompt, .window = window}, profiles);
    any_is_uneven |= std::ranges::max(budgets) > kBudget;
    const auto outcomes =
        replay_together(text.units, {{spec, kBudget, budgets}}, options, *backend).front();
    RunningCaches measured = caches_of(text, {spec, kBudget}, options);
    feed(text, measured, kPrompt, 5);
    check_same(text, measured, outcomes);
    RunningCaches given = caches_of(text, {spec, kBudget, budgets}, options);
    feed(text, given, 50, 50);  // need not wait for the end of the prompt
    check_same(text, given, outcomes);
  }
  CHECK(any_is_uneven);
}

TEST_CASE("a split by layers is that of a replay, also where the text is short for it") {
  const Text text;
  const Spec spec("h2o@pyramid");
  const ReplayOptions options{.trajectories = true};
  const auto backend = make_cpu_backend();
  for (const int budget : {7, 30, 45, 65}) {
    std::vector<UnitProfile> profiles;
    for (const Unit& unit : text.units) profiles.push_back({.name = unit.name});
    const std::vector<int> budgets = allocate(
        spec.allocation(),
        {.tokens = budget, .most = kTokens, .length = kTokens, .window = window_of(spec, budget)},
        profiles);
    const auto outcomes =
        replay_together(text.units, {{spec, budget, budgets}}, options, *backend).front();
    RunningCaches caches = caches_of(text, {spec, budget}, options);
    feed(text, caches, 1, 13);
    check_same(text, caches, outcomes);
  }
}

TEST_CASE("a prompt may come in several forward passes") {
  const Text text;
  const Spec spec(GENERATE("spatten", "h2o@adaptive", "h2o"));
  const ReplayOptions options{.protocol = {.mode = Mode::prefill}};
  RunningCaches whole = caches_of(text, {spec, 9}, options);
  RunningCaches parts = caches_of(text, {spec, 9}, options);
  feed(text, whole, kPrompt, 1);
  for (const auto& [begin, end] : {std::pair{0, 20}, std::pair{20, kPrompt}}) {
    for (std::size_t layer = 0; layer < 2; ++layer) {
      const Rows rows(std::span(text.units).subspan(2 * layer, 2), begin, end - begin);
      parts.advance(text.units[2 * layer].name.layer, rows.rows, nullptr);
      for (const CacheUsage& usage : parts.usage(text.units[2 * layer].name.layer)) {
        CHECK(usage.evicted_after.size() == static_cast<std::size_t>(end));
        CHECK((end == kPrompt || std::ranges::min(usage.evicted_after) == end));
      }
    }
    parts.end_forward();
  }
  for (int step = kPrompt; step < kTokens; ++step) {
    for (std::size_t layer = 0; layer < 2; ++layer) {
      const Rows rows(std::span(text.units).subspan(2 * layer, 2), step, 1);
      parts.advance(text.units[2 * layer].name.layer, rows.rows, nullptr);
    }
    parts.end_forward();
  }
  for (const ModelLayer& each : text.shape().layers) {
    const int layer = each.index;
    for (int head = 0; head < 2; ++head) {
      const auto at = static_cast<std::size_t>(head);
      CHECK(parts.usage(layer)[at].evicted_after == whole.usage(layer)[at].evicted_after);
    }
  }
}

TEST_CASE("after a failure the text cannot go on") {
  const Text text;
  RunningCaches caches = caches_of(text, {Spec("h2o"), 9}, {});
  const Rows rows(std::span(text.units).first(2), 0, kTokens);
  const std::atomic<bool> interrupted = true;
  const int layer = text.units[0].name.layer;
  CHECK_THROWS_AS(caches.advance(layer, rows.rows, nullptr, &interrupted), Interrupted);
  CHECK_THROWS_WITH(caches.advance(layer, rows.rows, nullptr), Catch::Contains("begin a new text"));
  CHECK_THROWS_WITH(caches.usage(layer), Catch::Contains("begin a new text"));
}

TEST_CASE("a policy that reads the kinds of tokens sees those of the text") {
  Text text;
  for (Unit& unit : text.units) {
    for (int i = 0; i < kTokens; ++i) unit.token_text.push_back(i % 3 == 0 ? "," : "word");
  }
  const Spec spec("fastgen");
  const ReplayOptions options{.protocol = {.mode = Mode::prefill}, .trajectories = true};
  const auto backend = make_cpu_backend();
  const auto outcomes = replay_together(text.units, {{spec, 20}}, options, *backend).front();
  RunningCaches caches = caches_of(text, {spec, 20}, options);
  caches.add_text(text.units.front().token_text);
  feed(text, caches, kTokens, kTokens);
  check_same(text, caches, outcomes);
}

TEST_CASE("caches in a running model refuse what needs more than the model has computed") {
  const Text text;
  const auto refused = [&](const char* spec, const ReplayOptions& options, const char* reason) {
    CHECK_THROWS_WITH(caches_of(text, {Spec(spec), 9}, options), Catch::Contains(reason));
  };
  refused("optimal", {}, "attention that a running model has not computed");
  refused("topk", {}, "reads the attention to all tokens");
  refused("lru:score=full", {}, "reads the attention to all tokens");
  refused("snapkv@adaptive", {}, "measured before the first eviction");
  refused("h2o", {.protocol = {.eviction_interval = kNeverEvict}}, "--mode prefill");
  ModelShape shape = text.shape();
  shape.layers[1].shape.rope.reset();
  CHECK_THROWS_WITH(RunningCaches({Spec("sink:positions=slot"), 9}, shape, {"text"}, {}),
                    Catch::Contains("how the model rotates keys, which was not found in layer"));
}

TEST_CASE("a policy for the model takes one token at a time after the prompt") {
  const Text text;
  RunningCaches in_stream = caches_of(text, {Spec("spatten"), 9}, {});
  CHECK_THROWS_AS(feed(text, in_stream, 2, 1), UsageError);
  RunningCaches after_prompt =
      caches_of(text, {Spec("spatten"), 9}, {.protocol = {.mode = Mode::prefill}});
  CHECK_THROWS_WITH(feed(text, after_prompt, kPrompt, 2), Catch::Contains("one token at a time"));
}

}  // namespace kvsim::running_caches_test
