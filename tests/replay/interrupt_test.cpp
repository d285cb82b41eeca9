// Ctrl-C ends a replay in the block that it comes in, whatever the policy.

#include <catch2/catch.hpp>

#include "policies/registry/registry.h"
#include "sim/replay/step_vectors.h"
#include "tests/support/interrupting_backend.h"
#include "tests/support/units.h"
#include "tests/support/variants.h"

namespace kvsim::interrupt_test {

TEST_CASE("every policy ends within the block in which it is interrupted", "[interrupt]") {
  constexpr int kTokens = 4 * kBlockSteps;
  const Unit unit = test_support::random_unit(
      {.tokens = kTokens, .value_dim = 3, .prompt_length = kTokens / 4}, 1);
  int replayed = 0;
  for (const test_support::Variant& variant : test_support::all_variants()) {
    if (!variant.param.empty() || variant.spec.is_oracle()) continue;
    ++replayed;
    const test_support::InterruptingBackend backend(2);
    const ReplayOptions options =
        test_support::options_for(variant.spec, {.interrupted = &backend.interrupted()});
    INFO(variant.spec.text());
    CHECK_THROWS_AS(replay(unit, {{variant.spec, 12}}, options, backend), Interrupted);
    CHECK(backend.num_blocks() == 2);
  }
  CHECK(replayed > 15);
}

TEST_CASE("a policy that orders a whole prompt asks for interrupts meanwhile", "[interrupt]") {
  const Unit unit = test_support::random_unit({.tokens = 40}, 1);
  const auto policy = Spec("kcenter").make(context_of(unit, 10, 0));
  std::vector<std::int32_t> tokens(40);
  for (int i = 0; i < 40; ++i) tokens[i] = i;
  std::vector<double> scores(40);
  const Step step{
      .index = 39, .tokens = tokens, .keys = resident_vectors(unit.key, tokens), .overflow = 30};
  const std::atomic<bool> interrupted = true;
  const InterruptScope scope(&interrupted);
  CHECK_THROWS_AS(policy->update(step, scores), Interrupted);
}

}  // namespace kvsim::interrupt_test
