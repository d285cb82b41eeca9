#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>

#include "sim/replay/replay.h"
#include "tests/support/compare.h"
#include "tests/support/nightly.h"
#include "tests/support/reference_replay.h"
#include "tests/support/units.h"
#include "traces/trace.h"

namespace kvsim::engine_matches_reference_test {

using namespace test_support;

// Every policy that the reference implements, with its settings, at one budget.
std::vector<std::pair<std::string, ReferenceSetting>> settings(int budget,
                                                               const Protocol& protocol) {
  const int half = std::max(1, static_cast<int>(std::floor(0.5 * budget + 0.5)));
  std::vector<std::pair<std::string, ReferenceSetting>> settings = {
      {"full", {.policy = "full"}},
      {"window", {.policy = "window"}},
      {"sink", {.policy = "sink"}},
      {"sink:sinks=1", {.policy = "sink", .sinks = 1}},
      {"random", {.policy = "random"}},
      {"h2o", {.policy = "h2o", .recent = half, .score = "sum"}},
      {"h2o:recent=0", {.policy = "h2o", .recent = 0, .score = "sum"}},
      {"h2o:recent=3,score=mean", {.policy = "h2o", .recent = 3, .score = "mean"}},
      {"h2o:recent=0,score=mean", {.policy = "h2o", .recent = 0, .score = "mean"}},
      {"h2o:score=full", {.policy = "h2o", .recent = half, .score = "full"}},
      {"tova", {.policy = "tova"}},
      {"tova:score=full", {.policy = "tova", .score = "full"}},
      {"topk", {.policy = "topk"}},
      {"lru", {.policy = "lru"}},
      {"lru:score=full", {.policy = "lru", .score = "full"}},
      {"lfu", {.policy = "lfu"}},
      {"lfu:score=full", {.policy = "lfu", .score = "full"}},
      {"scissorhands", {.policy = "scissorhands", .recent = 10, .history = 400, .drop = half}},
      {"scissorhands:history=5,recent=2,drop=0",
       {.policy = "scissorhands", .recent = 2, .history = 5, .drop = 1}}};
  for (auto& [spec, setting] : settings) {
    setting.budget = budget;
    setting.mode = protocol.mode;
    setting.eviction_interval = protocol.eviction_interval;
    setting.paging = protocol.paging;
  }
  return settings;
}

std::string where_trajectories_differ(const Trajectory& a, const Trajectory& b) {
  std::string where;
  if (a.evicted_after != b.evicted_after) where += "evicted_after ";
  // Recorded in single precision.
  if (!a.attention_recall.isApprox(b.attention_recall, 1e-5F)) where += "attention_recall ";
  if (!(a.output_error - b.output_error).isZero(1e-5F)) where += "output_error ";
  return where;
}

// `most_followed`: the most evictions of one replay that rounding may decide.
void check_engine(const Unit& unit, const std::vector<int>& budgets, const Protocol& protocol,
                  int most_followed = 2) {
  std::vector<Configuration> configurations;
  std::vector<ReferenceSetting> references;
  for (const int budget : budgets) {
    int place = unit.num_tokens() + budget + protocol.eviction_interval;
    for (const auto& [spec, setting] : settings(budget, protocol)) {
      // Where sanitizers watch a third of them, for each unit and budget another.
      if (++place % 3 != 0 && is_watched()) continue;
      configurations.push_back({Spec(spec), budget});
      references.push_back(setting);
    }
  }
  const ReplayOptions options{.protocol = protocol, .seed = 7, .trajectories = true};
  const std::vector<Outcome> outcomes = replay(unit, configurations, options, *make_cpu_backend());
  REQUIRE(outcomes.size() == references.size());
  const ReferenceUnit reference(unit);
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    INFO(configurations[i].policy.text()
         << " at " << configurations[i].budget << " of " << unit.num_tokens());
    const ReferenceOutcome expected =
        reference_replay(reference, references[i], outcomes[i].trajectory.evicted_after);
    CHECK(differences(outcomes[i].result, expected.outcome.result, 1e-5) == "");
    CHECK(where_trajectories_differ(outcomes[i].trajectory, expected.outcome.trajectory) == "");
    CHECK(expected.followed <= most_followed);
  }
}

void check_engine(const Unit& unit, std::vector<int> budgets, Mode mode = Mode::stream,
                  int most_followed = 2, int eviction_interval = 1) {
  if (is_watched()) budgets = {budgets[budgets.size() / 2]};
  check_engine(unit, budgets, {.mode = mode, .eviction_interval = eviction_interval},
               most_followed);
}

TEST_CASE("the engine matches the definitions on units of odd shapes", "[reference]") {
  const UnitShape shape = GENERATE(
      UnitShape{.tokens = 1}, UnitShape{.tokens = 2, .group = 2},
      UnitShape{.tokens = 65, .head_dim = 1, .value_dim = 3},
      UnitShape{.tokens = 65, .head_dim = 3, .value_dim = 16, .group = 3, .gradient_samples = 2},
      UnitShape{.tokens = 130, .head_dim = 16, .value_dim = 1, .group = 2});
  const int n = shape.tokens;
  check_engine(random_unit(shape, 11), {1, 2, 5, std::max(1, n - 1), n, n + 5});
}

TEST_CASE("the engine matches the definitions with soft-capped logits", "[reference]") {
  Unit unit = random_unit({.tokens = 65, .head_dim = 8, .group = 2, .spread = 6}, 12);
  unit.logit_softcap = 4.F;
  check_engine(unit, {3, 16});
}

TEST_CASE("the engine matches the definitions under a sliding window", "[reference]") {
  Unit unit = random_unit({.tokens = 65, .group = 2, .prompt_length = 20}, 13);
  unit.sliding_window = GENERATE(1, 5, 30, 65, 1000);
  const Mode mode = GENERATE(Mode::stream, Mode::prefill);
  check_engine(unit, {1, 12, 40}, mode);
}

TEST_CASE("the engine matches the definitions with learned sinks", "[reference]") {
  // From next to nothing to nearly all of the attention.
  const float sink = GENERATE(-30.F, 0.F, 4.F, 25.F);
  CAPTURE(sink);
  const Mode mode = GENERATE(Mode::stream, Mode::prefill);
  const UnitShape shape{
      .tokens = 65, .group = 3, .prompt_length = 20, .gradient_samples = 2, .sink_logit = sink};
  check_engine(random_unit(shape, 17), {1, 12, 40}, mode);
}

TEST_CASE("the engine matches the definitions where attention is chunked", "[reference]") {
  UnitShape shape{.tokens = 130, .group = 2, .prompt_length = 20};
  shape.attention_chunk = GENERATE(1, 5, 48, 130, 1000);
  if (GENERATE(false, true)) shape.sink_logit = 1.F;
  const Mode mode = GENERATE(Mode::stream, Mode::prefill);
  Unit unit = random_unit(shape, 18);
  check_engine(unit, {1, 12, 40}, mode);
  unit.sliding_window = 9;
  check_engine(unit, {1, 12, 40}, mode);
}

TEST_CASE("the engine matches the definitions where the model selects tokens", "[reference]") {
  // With few, a cache often holds none of what a step selects.
  UnitShape shape{.tokens = 130, .group = 2, .prompt_length = 20, .gradient_samples = 2};
  shape.selected = GENERATE(1, 4, 40, 130);
  if (GENERATE(false, true)) shape.sink_logit = 1.F;
  const Mode mode = GENERATE(Mode::stream, Mode::prefill);
  Unit unit = random_unit(shape, 19);
  check_engine(unit, {1, 12, 40, 129}, mode, 20);
  check_engine(unit, {12}, mode, 20, 9);
}

TEST_CASE("what is kept attends next to a sink where the full row's maximum has left",
          "[reference]") {
  // Token 0 has all of the full attention; the sink has less than it and more than the others.
  const float depth = GENERATE(20.F, 60.F, 120.F, 1000.F);
  Unit unit = unit_of_logits(
      66, [&](int t, int j) { return j == 0 ? 0.F : static_cast<float>((t + j) % 7) - depth; });
  unit.sink_logit = {GENERATE(-1.F, 2.F, 9.F) - depth};
  CAPTURE(depth, unit.sink_logit);
  check_engine(unit, {1, 2, 8, 20}, Mode::stream, unit.num_tokens());
}

TEST_CASE("the engine matches the definitions after a prompt", "[reference]") {
  const int prompt = GENERATE(1, 2, 30, 64);
  check_engine(random_unit({.tokens = 65, .group = 2, .prompt_length = prompt}, 14),
               {1, 2, 29, 30, 31, 64, 70}, Mode::prefill);
}

TEST_CASE("the engine matches the definitions where caches evict at intervals", "[reference]") {
  const Unit unit = random_unit({.tokens = 130, .group = 2, .prompt_length = 50}, 15);
  const std::vector<int> budgets = {1, 7, 49, 50, 60, 128, 140};
  for (const int interval : {2, 9, 64, 200}) {
    CAPTURE(interval);
    check_engine(unit, budgets, Mode::stream, 2, interval);
    check_engine(unit, budgets, Mode::prefill, 2, interval);
  }
}

TEST_CASE("the engine matches the definitions where whole pages leave", "[reference]") {
  const int page = GENERATE(2, 8, 16);
  const PageScore score = GENERATE(PageScore::mean, PageScore::max, PageScore::min);
  Protocol protocol{.paging = {page, score}};
  const Unit unit = random_unit({.tokens = 130, .group = 2, .prompt_length = 50}, 23);
  CAPTURE(page, static_cast<int>(score));
  check_engine(unit, {2 * page, 3 * page, 64, 144}, protocol);
  protocol.mode = Mode::prefill;
  check_engine(unit, {2 * page, 48, 64}, protocol);
  if (score != PageScore::mean) return;
  for (const int interval : {3, page, page + 1, 40, kNeverEvict}) {
    CAPTURE(interval);
    protocol.eviction_interval = interval;
    check_engine(unit, {2 * page, 48}, protocol);
  }
  protocol = {.eviction_interval = 21, .paging = {page, score}};
  check_engine(unit, {2 * page, 48}, protocol);
}

TEST_CASE("the engine matches the definitions where only the prompt is cut", "[reference]") {
  const int prompt = GENERATE(1, 50, 129);
  check_engine(random_unit({.tokens = 130, .group = 2, .prompt_length = prompt}, 16),
               {1, 7, 49, 50, 140}, Mode::prefill, 2, kNeverEvict);
}

TEST_CASE("the engine matches the definitions when all tokens are attended equally",
          "[reference]") {
  Unit unit = uniform_unit({.tokens = 65, .group = 2, .prompt_length = 32});
  const Mode mode = GENERATE(Mode::stream, Mode::prefill);
  check_engine(unit, {1, 2, 10, 64}, mode);
}

TEST_CASE("the engine matches the definitions where attention takes few different values",
          "[reference]") {
  const Unit unit = unit_of_logits(67, [](int t, int j) { return (t * 5 + j * 3) % 4; });
  check_engine(unit, {1, 2, 7, 30});
}

TEST_CASE("weights that vanish next to the full row's maximum still attend among themselves",
          "[reference]") {
  // Token 0 has all of the full attention; after its eviction the others share the attention.
  const float depth = GENERATE(60.F, 85.F, 88.F, 95.F, 101.F, 104.F, 120.F, 1000.F, 30000.F);
  const Unit unit = unit_of_logits(
      66, [&](int t, int j) { return j == 0 ? 0.F : static_cast<float>((t + j) % 7) - depth; });
  CAPTURE(depth);
  check_engine(unit, {1, 2, 8, 20}, Mode::stream, unit.num_tokens());
}

TEST_CASE("weights of very different size keep their order", "[reference]") {
  // Steps of 16 leave the range of single precision within a few tokens.
  const float step = GENERATE(4.F, 16.F, 40.F, 65536.F);
  CAPTURE(step);
  // Without the small term, sums over equal distances would tie up to rounding.
  Unit falling = unit_of_logits(66, [&](int, int j) {
    return -step * static_cast<float>(j) + static_cast<float>((j * 29) % 67) / 64;
  });
  check_engine(falling, {1, 2, 8, 20}, Mode::stream, falling.num_tokens());
  falling.sliding_window = 5;  // now the largest logits are hidden
  check_engine(falling, {1, 2, 8, 20}, Mode::stream, falling.num_tokens());
  const Unit mixed = unit_of_logits(
      66, [&](int t, int j) { return step * static_cast<float>((j * 29 + t) % 67 - 33); });
  check_engine(mixed, {1, 2, 8, 20}, Mode::stream, mixed.num_tokens());
}

void check_units_of(const std::filesystem::path& file, const std::vector<int>& layers,
                    const std::vector<int>& kv_heads, const std::vector<int>& budgets) {
  const Trace trace(file);
  for (const SequenceInfo& sequence : trace.sequences()) {
    for (const int layer : layers) {
      for (const int kv_head : kv_heads) {
        INFO(sequence.name << " layer " << layer << " KV head " << kv_head);
        const Unit unit = trace.read_unit({sequence.name, layer, kv_head});
        if (!is_watched()) check_engine(unit, budgets);
        check_engine(unit, budgets, Mode::prefill);
      }
    }
  }
}

TEST_CASE("the engine matches the definitions on the bundled trace", "[reference]") {
  const std::filesystem::path root = KVSIM_SOURCE_DIR;
  check_units_of(root / "traces/sample/tiny-llama.h5", {0}, {3}, {51});
  check_units_of(root / "traces/sample/tiny-llama.h5", {2}, {0}, {51});
}

// Known to three digits, from independent programs.
TEST_CASE("recall on the bundled trace is what independent replays found", "[reference]") {
  const Trace trace(std::filesystem::path(KVSIM_SOURCE_DIR) / "traces/sample/tiny-llama.h5");
  const auto recall = [&](int layer, const char* policy) {
    const Unit unit = trace.read_unit({"copied-segment", layer, 0});
    return *replay(unit, {{Spec(policy), 51}}, {}, *make_cpu_backend())[0].result.attention_recall;
  };
  CHECK(recall(2, "window") == Approx(0.184).margin(0.001));
  CHECK(recall(2, "h2o") == Approx(0.227).margin(0.001));
  CHECK(recall(2, "tova") == Approx(0.333).margin(0.001));
  CHECK(recall(3, "window") == Approx(0.559).margin(0.001));
  CHECK(recall(3, "h2o") == Approx(0.462).margin(0.001));
  CHECK(recall(3, "tova") == Approx(0.572).margin(0.001));
}

TEST_CASE("the engine matches the definitions on a larger trace from outside the project",
          "[reference]") {
  const auto file = std::filesystem::path(KVSIM_SOURCE_DIR) / "../shared/traces/tiny-llama.h5";
  if (!std::filesystem::exists(file)) {
    WARN("skipped: there is no " << file);
    return;
  }
  if (is_watched()) return;  // a long text, of code that the units above run
  check_units_of(file, {3}, {1}, {102});
}

}  // namespace kvsim::engine_matches_reference_test
