#include "oracle/certificate.h"

#include <catch2/catch.hpp>

#include "oracle/assignment/eviction_assignment.h"
#include "tests/oracle/small_attention.h"
#include "tests/support/nightly.h"
#include "traces/trace.h"

namespace kvsim::certificate_test {

using namespace oracle_test;

double total(const FutureAttention& attention) {
  double sum = 0;
  for (int step = attention.first_measured(); step < attention.num_tokens(); ++step) {
    for (const float share : attention.row(step)) sum += double{share};
  }
  return sum;
}

TEST_CASE("any prices prove a bound that no sequence of evictions exceeds", "[certificate]") {
  const int prompt = GENERATE(0, 1, 4, 7);
  std::mt19937_64 bits(1);
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    const FutureAttention attention(random_rows(8, seed), prompt, {.mode = Mode::prefill});
    for (int budget = 1; budget < 8; ++budget) {
      const double best = total(attention) - least_loss(attention, [&](int) { return budget; });
      for (int draw = 0; draw < 20; ++draw) {
        std::vector<double> prices;
        for (int step = 0; step < 8; ++step) {
          prices.push_back(draw == 0 ? 0 : static_cast<double>(bits() % 100) / 200);
        }
        CAPTURE(prompt, seed, budget, draw);
        CHECK(dual_bound(attention, budget, prices) >= best - 1e-5);
      }
    }
  }
}

TEST_CASE("the optimum's own slot prices prove it", "[certificate]") {
  const FutureAttention attention(random_rows(60, 4), GENERATE(0, 20), {.mode = Mode::prefill});
  EvictionAssignment assignment(attention, 0);
  while (assignment.budget() > 1) {
    assignment.lower_budget();
    CAPTURE(assignment.budget());
    CHECK(dual_bound(attention, assignment.budget(), assignment.slot_prices()) ==
          Approx(total(attention) - assignment.loss()).margin(1e-4));
  }
}

TEST_CASE("a certificate's schedule holds the budget and retains what it says", "[certificate]") {
  const FutureAttention attention(random_rows(50, 5), GENERATE(0, 20), {.mode = Mode::prefill});
  for (const int budget : {1, 7, 30}) {
    const Certificate certificate = certify(attention, budget, {.gap = 0, .passes = 40});
    CHECK(certificate.passes <= 40);
    CHECK(certificate.retained ==
          Approx(total(attention) - lost(attention, certificate.schedule)).margin(1e-4));
    CHECK(certificate.retained <= certificate.bound + 1e-4);
    CHECK(dual_bound(attention, budget, certificate.slot_price) == Approx(certificate.bound));
    for (int step = attention.first_eviction(); step < 50; ++step) {
      CHECK(kept_after(certificate.schedule, step) <= budget);
    }
  }
}

TEST_CASE("bound and schedule come within 1% of each other on the bundled trace", "[certificate]") {
  const Trace trace(std::filesystem::path(KVSIM_SOURCE_DIR) / "traces/sample/tiny-llama.h5");
  const auto backend = make_cpu_backend();
  const Mode mode = GENERATE(Mode::stream, Mode::prefill);
  for (const SequenceInfo& sequence : trace.sequences()) {
    for (const LayerInfo& layer : sequence.layers) {
      for (const int head : layer.kv_heads) {
        // By day one head of each layer.
        if (head != layer.index && !test_support::is_nightly()) continue;
        const Unit unit = trace.read_unit({sequence.name, layer.index, head});
        const FutureAttention attention(unit, eviction_steps(unit, {.mode = mode}), *backend);
        const int length = mode == Mode::stream ? attention.num_tokens() : unit.prompt_length;
        for (const double share : {0.05, 0.1, 0.2}) {
          CAPTURE(sequence.name, layer.index, head, share);
          const auto budget = static_cast<int>(share * length + 0.5);
          const Certificate certificate = certify(attention, budget, {});
          CHECK(certificate.bound <= 1.01 * certificate.retained);
        }
      }
    }
  }
}

TEST_CASE("the optimum lies between a certificate's schedule and its bound", "[certificate]") {
  const Trace trace(std::filesystem::path(KVSIM_SOURCE_DIR) / "traces/sample/tiny-llama.h5");
  const auto backend = make_cpu_backend();
  const Mode mode = GENERATE(Mode::stream, Mode::prefill);
  for (const SequenceInfo& sequence : trace.sequences()) {
    for (const LayerInfo& layer : sequence.layers) {
      const Unit unit = trace.read_unit({sequence.name, layer.index, layer.index});
      const FutureAttention attention(unit, eviction_steps(unit, {.mode = mode}), *backend);
      EvictionAssignment assignment(attention, 0);
      for (const int budget : {102, 51, 26}) {
        CAPTURE(sequence.name, layer.index, budget);
        while (assignment.budget() > budget) assignment.lower_budget();
        const double optimum = total(attention) - assignment.loss();
        const Certificate certificate = certify(attention, budget, {});
        CHECK(certificate.bound >= optimum - 1e-3);
        CHECK(certificate.retained <= optimum + 1e-3);
      }
    }
  }
}

}  // namespace kvsim::certificate_test
