// Ctrl-C ends an analysis in the block that it comes in, whatever it measures.

#include <catch2/catch.hpp>

#include "analysis/analyse_unit.h"
#include "tests/analysis/analysed.h"
#include "tests/support/interrupting_backend.h"
#include "tests/support/units.h"

namespace kvsim::analysis_test::interrupt_test {

TEST_CASE("every analysis ends within the block in which it is interrupted", "[interrupt]") {
  const Unit unit = test_support::random_unit({.tokens = 3 * kBlockSteps, .group = 2}, 8);
  int analysed = 0;
  for (const AnalysisInfo* info : analyses()) {
    if (!info->reads_attention || info->accepts != nullptr || !info->needs.empty()) {
      continue;  // they get the same blocks
    }
    ++analysed;
    const test_support::InterruptingBackend backend(1);
    const std::vector<AnalysisSpec> specs{{info, Params(info->params)}};
    INFO(info->name);
    CHECK_THROWS_AS(analyse_unit(unit, specs, {}, {.interrupted = &backend.interrupted()}, backend),
                    Interrupted);
    CHECK(backend.num_blocks() == 1);
  }
  CHECK(analysed > 5);
}

TEST_CASE("analyses that cluster keys ask for interrupts meanwhile", "[interrupt]") {
  const Unit unit = test_support::random_unit({.tokens = 64}, 8);
  const std::atomic<bool> interrupted = true;
  for (const char* name : {"clusters", "cluster-growth:delta=1"}) {
    const std::vector<AnalysisSpec> specs = parse_analyses(name);
    const Subject subject{unit, {}};
    const auto analysis = specs.front().info->make(specs.front().params, subject);
    const InterruptScope scope(&interrupted);
    INFO(name);
    CHECK_THROWS_AS(analysis->finish(), Interrupted);
  }
}

}  // namespace kvsim::analysis_test::interrupt_test
