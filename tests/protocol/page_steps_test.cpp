#include "sim/protocol/page_steps.h"

#include <catch2/catch.hpp>
#include <string>

#include "sim/base/errors.h"
#include "sim/protocol/budget.h"

namespace kvsim::page_steps_test {

int budget_of(const std::string& amount, int page, int num_tokens) {
  return kvsim::budget_of(Amount::parse(amount, "budget"), {.paging = {.size = page}}, num_tokens,
                          0);
}

TEST_CASE("a share of the text is the nearest number of pages, halves upwards, at least two") {
  CHECK(budget_of("20%", 1, 512) == 102);
  CHECK(budget_of("20%", 16, 512) == 96);  // 102.4 tokens are 6.4 pages
  CHECK(budget_of("25%", 16, 96) == 32);   // 24 tokens are 1.5 pages
  CHECK(budget_of("0.5", 16, 80) == 48);   // 40 tokens are 2.5 pages
  CHECK(budget_of("1%", 16, 512) == 32);
  CHECK(budget_of("100%", 16, 50) == 48);
}

TEST_CASE("a number of tokens has to be a number of pages, at least two") {
  CHECK(budget_of("64", 16, 512) == 64);
  CHECK_THROWS_WITH(budget_of("100", 16, 512),
                    "budget 100: expected a multiple of --page 16 of at least 32 tokens; use 96");
  CHECK_THROWS_WITH(budget_of("16", 16, 512),
                    "budget 16: expected a multiple of --page 16 of at least 32 tokens; use 32");
  CHECK_NOTHROW(check_budget({}, 1));
  CHECK_THROWS_AS(check_budget({.paging = {.size = 4}}, 4), UsageError);
}

TEST_CASE("a text has budgets up to the least that holds it") {
  using Budgets = std::vector<int>;
  CHECK(every_budget({}, 3) == Budgets{1, 2, 3});
  CHECK(every_budget({.paging = {.size = 4}}, 12) == Budgets{8, 12});
  CHECK(every_budget({.paging = {.size = 4}}, 13) == Budgets{8, 12, 16});
  CHECK(every_budget({.paging = {.size = 4}}, 1) == Budgets{8});
}

TEST_CASE("one page leaves each time that a page is begun") {
  const EvictionSteps steps(70, 0, {.paging = {.size = 16}});
  const std::vector<int> evictions = steps.num_evictions(32);
  for (int step = 0; step < 70; ++step) {
    CHECK(evictions[step] == (step == 32 || step == 48 || step == 64 ? 16 : 0));
  }
}

TEST_CASE("a step may attend to as many older tokens as a cache of pages holds before it") {
  const EvictionSteps steps(70, 0, {.paging = {.size = 16}});
  CHECK(steps.most_attended(32, 20) == 20);
  CHECK(steps.most_attended(32, 32) == 32);
  CHECK(steps.most_attended(32, 33) == 17);
  CHECK(steps.most_attended(32, 47) == 31);
  CHECK(steps.most_attended(32, 48) == 32);
  const Protocol once{
      .mode = Mode::prefill, .eviction_interval = kNeverEvict, .paging = {.size = 16}};
  CHECK(EvictionSteps(70, 41, once).most_attended(32, 41) == 25);
  CHECK(EvictionSteps(70, 41, once).most_attended(32, 50) == 34);
}

// What an oracle of pages plans must be what the protocol of tokens allows.
TEST_CASE("the evictions of pages are those of a text whose tokens are the pages") {
  const int page = GENERATE(2, 5, 16);
  const int prompt = GENERATE(0, 1, 5, 32, 47, 69);
  const int interval = GENERATE(1, 2, 5, 16, 17, 33, kNeverEvict);
  if (prompt == 0 && interval == kNeverEvict) return;
  const Protocol protocol{.mode = prompt == 0 ? Mode::stream : Mode::prefill,
                          .eviction_interval = interval,
                          .paging = {.size = page}};
  for (const int tokens : {70, 71, 79, 80, 81}) {
    const EvictionSteps steps(tokens, prompt, protocol);
    const PageSteps pages(steps);
    for (int budget = 2; budget <= tokens / page; ++budget) {
      CAPTURE(page, prompt, interval, tokens, budget);
      const std::vector<int> of_pages = pages.steps().num_evictions(budget);
      std::vector<int> expected(tokens, 0);
      for (std::size_t begun = 0; begun < of_pages.size(); ++begun) {
        if (of_pages[begun] == 0) continue;
        const int step = pages.eviction_step(static_cast<int>(begun));
        CHECK(step / page == static_cast<int>(begun));
        expected[step] = of_pages[begun] * page;
      }
      CHECK(steps.num_evictions(budget * page) == expected);
    }
  }
}

}  // namespace kvsim::page_steps_test
