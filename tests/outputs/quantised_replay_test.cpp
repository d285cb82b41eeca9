#include <algorithm>
#include <catch2/catch.hpp>

#include "sim/replay/replay_checks.h"
#include "tests/support/compare.h"
#include "tests/support/stepwise_reference.h"
#include "tests/support/units.h"

namespace kvsim::quantised_replay_test {

using namespace test_support;

/// Attention to stored tokens. A step sees its own token unquantised, and the prompt of prefill
/// mode all of its tokens.
class QuantisedAttention {
 public:
  QuantisedAttention(const Unit& unit, const Quantization& quantization, Mode mode)
      : unit_(unit),
        stored_unit_(quantised(unit, quantization)),
        recorded_(unit_),
        stored_(stored_unit_),
        first_stored_step_(mode == Mode::stream ? 0 : unit.prompt_length) {}

  HeadStep attend(int head, int t, const std::vector<int>& tokens) const {
    const auto h = static_cast<std::size_t>(head);
    const auto step = static_cast<std::size_t>(t);
    const bool is_prompt = t < first_stored_step_;
    std::vector<double> logit = (is_prompt ? recorded_ : stored_).heads[h].logit[step];
    logit[step] = recorded_.heads[h].logit[step][step];
    HeadStep result{softmax(logit, tokens, recorded_.heads[h].sink), {}};
    result.output =
        cached_value(unit_, is_prompt ? unit_ : stored_unit_, t, tokens, result.attention);
    return result;
  }

  /// a[t,j], the full attention, not quantised.
  std::vector<double> full_attention(int head, int t, const std::vector<int>& tokens) const {
    const auto& full = recorded_.heads[static_cast<std::size_t>(head)].full;
    const std::vector<double>& row = full[static_cast<std::size_t>(t)];
    std::vector<double> attention(tokens.size());
    std::transform(tokens.begin(), tokens.end(), attention.begin(),
                   [&](int j) { return row[static_cast<std::size_t>(j)]; });
    return attention;
  }

  const ReferenceUnit& recorded() const { return recorded_; }

 private:
  const Unit& unit_;
  Unit stored_unit_;
  ReferenceUnit recorded_;
  ReferenceUnit stored_;
  int first_stored_step_;
};

Outcome replay_one(const Unit& unit, const std::string& spec, int budget,
                   Mode mode = Mode::stream) {
  const ReplayOptions options{.protocol = {.mode = mode}, .trajectories = true};
  return replay(unit, {{Spec(spec), budget}}, options, *make_cpu_backend()).front();
}

void check(const Unit& unit, const std::string& policy, Keeping keeping,
           const Quantization& quantization, Mode mode = Mode::stream) {
  const std::string spec = policy + "+quant:bits=" + std::to_string(quantization.bits) +
                           ",group=" + std::to_string(quantization.group);
  CAPTURE(spec, keeping.budget, unit.num_tokens(), Protocol{.mode = mode}.name());
  const Outcome outcome = replay_one(unit, spec, keeping.budget, mode);
  const QuantisedAttention quantised(unit, quantization, mode);
  keeping.mode = mode;
  if (policy == "full") keeping.budget = unit.num_tokens();
  const bool sees_full = policy.find("score=full") != std::string::npos;
  const auto attend = [&](int head, int t, const std::vector<int>& tokens) {
    HeadStep step = quantised.attend(head, t, tokens);
    if (sees_full) step.attention = quantised.full_attention(head, t, tokens);
    return step;
  };
  const SteppedReplay expected =
      replay_steps(quantised.recorded(), keeping, attend, outcome.trajectory.evicted_after);
  CHECK(expected.record.differences(outcome) == "");
  CHECK(expected.followed <= 2);
  CHECK(outcome.result.bound_mean == std::nullopt);
  CHECK(outcome.result.bound_violations == std::nullopt);
}

void check_policies(const Unit& unit, const Quantization& quantization, Mode mode = Mode::stream) {
  check(unit, "full", {.budget = 3}, quantization, mode);
  check(unit, "window", {.budget = 7}, quantization, mode);
  check(unit, "h2o", {.budget = 1, .newest = 1, .by_attention = true}, quantization, mode);
  check(unit, "h2o", {.budget = 16, .newest = 8, .by_attention = true}, quantization, mode);
  check(unit, "h2o:recent=0", {.budget = 16, .by_attention = true}, quantization, mode);
  check(unit, "h2o:score=full", {.budget = 16, .newest = 8, .by_attention = true}, quantization,
        mode);
  check(unit, "h2o+protect:first=2,last=9",
        {.budget = 20, .first = 2, .newest = 10, .by_attention = true}, quantization, mode);
}

TEST_CASE("a step attends to quantised tokens and to its own as recorded", "[quantised]") {
  const UnitShape shape =
      GENERATE(UnitShape{.tokens = 1}, UnitShape{.tokens = 2, .group = 2},
               UnitShape{.tokens = 65, .head_dim = 5, .value_dim = 3, .group = 3},
               UnitShape{.tokens = 130, .head_dim = 16, .value_dim = 9, .group = 2});
  Unit unit = random_unit(shape, 61);
  unit.key_bytes = GENERATE(2, 4);
  for (const Quantization& quantization :
       {Quantization{.bits = 4, .group = 64}, Quantization{.bits = 2, .group = 4},
        Quantization{.bits = 8, .group = 3}}) {
    check_policies(unit, quantization);
  }
}

TEST_CASE("quantised keys are attended to with soft-capped logits", "[quantised]") {
  Unit unit = random_unit({.tokens = 65, .head_dim = 8, .group = 2, .spread = 6}, 62);
  unit.logit_softcap = 4.F;
  check_policies(unit, {.bits = 3, .group = 8});
}

TEST_CASE("a sliding window hides quantised tokens", "[quantised]") {
  Unit unit = random_unit({.tokens = 65, .group = 2}, 63);
  unit.sliding_window = GENERATE(1, 5, 30);
  check_policies(unit, {.bits = 3, .group = 8});
}

TEST_CASE("a sink takes its share next to quantised tokens, and chunks hide them", "[quantised]") {
  const Mode mode = GENERATE(Mode::stream, Mode::prefill);
  const float sink = GENERATE(1.F, 30.F);
  check_policies(
      random_unit({.tokens = 65, .group = 2, .prompt_length = 20, .sink_logit = sink}, 69),
      {.bits = 3, .group = 8}, mode);
  check_policies(
      random_unit({.tokens = 65, .prompt_length = 20, .sink_logit = sink, .attention_chunk = 24},
                  70),
      {.bits = 3, .group = 8}, mode);
}

TEST_CASE("a prompt attends to itself before it is quantised", "[quantised]") {
  const int prompt = GENERATE(1, 2, 30, 64);
  const Unit unit = random_unit({.tokens = 65, .group = 2, .prompt_length = prompt}, 64);
  check_policies(unit, {.bits = 1, .group = 4}, Mode::prefill);
}

TEST_CASE("quantised keys change which tokens h2o keeps", "[quantised]") {
  const Unit unit = random_unit({.tokens = 65}, 65);
  const Outcome exact = replay_one(unit, "h2o", 16);
  const Outcome coarse = replay_one(unit, "h2o+quant:bits=1", 16);
  CHECK(exact.trajectory.evicted_after != coarse.trajectory.evicted_after);
}

TEST_CASE("combinators change the same policy in any order", "[quantised]") {
  const Unit unit = random_unit({.tokens = 65, .group = 2, .prompt_length = 20}, 66);
  const Mode mode = GENERATE(Mode::stream, Mode::prefill);
  for (const std::string policy : {"h2o", "tova", "sink:positions=slot", "subgen"}) {
    CAPTURE(policy);
    const std::string protect = "+protect:first=6,last=9";
    const std::string quant = "+quant:bits=2,group=4";
    const Outcome one = replay_one(unit, policy + protect + quant, 16, mode);
    const Outcome other = replay_one(unit, policy + quant + protect, 16, mode);
    CHECK(identical(one.result, other.result));
    CHECK(one.trajectory.evicted_after == other.trajectory.evicted_after);
    CHECK(one.trajectory.output_error == other.trajectory.output_error);
    CHECK_FALSE(identical(one.result, replay_one(unit, policy + protect, 16, mode).result));
    CHECK_FALSE(identical(one.result, replay_one(unit, policy + quant, 16, mode).result));
  }
}

TEST_CASE("different quantisations in one replay stay apart", "[quantised]") {
  const Unit unit = random_unit({.tokens = 65, .prompt_length = 20}, 67);
  std::vector<Configuration> configurations;
  for (const char* spec : {"full", "full+quant:bits=2,group=4", "full+quant:bits=2,group=2",
                           "full+quant:bits=3,group=4", "h2o+quant:bits=2,group=4"}) {
    configurations.push_back({Spec(spec), 9});
  }
  const std::vector<Outcome> together = replay(unit, configurations, {}, *make_cpu_backend());
  for (std::size_t i = 0; i < together.size(); ++i) {
    const Outcome alone = replay_one(unit, configurations[i].policy.text(), 9);
    CHECK(identical(together[i].result, alone.result));
    CHECK((i == 0 || !identical(together[i].result, together[i - 1].result)));
  }
}

TEST_CASE("a quantised cache takes the bytes of its integers, least numbers and steps",
          "[quantised]") {
  Unit unit = random_unit({.tokens = 30, .head_dim = 5, .value_dim = 3}, 68);
  unit.key_bytes = 2;
  unit.value_bytes = 4;
  // Keys: 15 bits in 2 bytes and 2 groups of 2 halves; values: 9 bits in 2 bytes, 1 of 2 floats.
  const Outcome small = replay_one(unit, "window+quant:bits=3,group=4", 7);
  CHECK(small.result.peak_tokens == 7);
  CHECK(small.result.cache_bytes == 7 * ((2 + 2 * 2 * 2) + (2 + 1 * 2 * 4)));
  const Outcome full = replay_one(unit, "full+quant:bits=8,group=64", 7);
  CHECK(full.result.cache_bytes == 30 * ((5 + 2 * 2) + (3 + 2 * 4)));
}

}  // namespace kvsim::quantised_replay_test
