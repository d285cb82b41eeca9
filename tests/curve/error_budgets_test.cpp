#include "sim/curve/error_budgets.h"

#include <catch2/catch.hpp>

#include "sim/base/errors.h"

namespace kvsim::error_budgets_test {

using Budgets = std::vector<int>;

/// A share is of the text, or of the prompt.
Budgets budgets(const std::string& text, int num_tokens, int prompt = 0, int page = 1) {
  const Protocol protocol{.mode = prompt == 0 ? Mode::stream : Mode::prefill,
                          .paging = {.size = page}};
  return ErrorBudgets(text, "--output-error").of(protocol, num_tokens, prompt);
}

TEST_CASE("output errors are asked for at no, all, evenly spaced or listed budgets", "[curve]") {
  CHECK(budgets("none", 5).empty());
  CHECK(budgets("all", 4) == Budgets{1, 2, 3, 4});
  CHECK(budgets("every:3", 9) == Budgets{3, 6, 9});
  CHECK(budgets("every:4", 9) == Budgets{4, 8, 9});
  CHECK(budgets("every:100", 9) == Budgets{9});
  CHECK(budgets("50%,2,0.1,2,1000", 40, 20) == Budgets{2, 10, 40});
}

TEST_CASE("output errors of pages are at budgets of at least two", "[curve]") {
  CHECK(budgets("none", 50, 0, 4).empty());
  CHECK(budgets("all", 15, 0, 4) == Budgets{8, 12, 16});
  CHECK(budgets("all", 3, 0, 4) == Budgets{8});
  CHECK(budgets("every:4", 15, 0, 4) == Budgets{8, 12, 16});
  CHECK(budgets("every:8", 21, 0, 4) == Budgets{8, 16, 24});
  CHECK(budgets("every:8", 25, 0, 4) == Budgets{8, 16, 24, 28});
  CHECK(budgets("1%,50%,12,1000", 42, 20, 4) == Budgets{8, 12, 44});
}

TEST_CASE("what names no budgets is refused with the option", "[curve]") {
  for (const char* text : {"", "some", "0", "5%,", "every:", "every:0", "every:5%", "1.5"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(ErrorBudgets(text, "--output-error"), UsageError);
    CHECK_THROWS_WITH(ErrorBudgets(text, "--output-error"), Catch::StartsWith("--output-error"));
  }
}

TEST_CASE("budgets that caches of pages cannot have are refused with the nearest", "[curve]") {
  CHECK_THROWS_WITH(budgets("every:6", 50, 0, 4),
                    "--output-error: 'every:6' steps over parts of pages; use every:8");
  CHECK_THROWS_WITH(budgets("8,10", 50, 0, 4),
                    "--output-error: budget 10: expected a multiple of --page 4 of at least 8 "
                    "tokens; use 8");
  CHECK_THROWS_AS(budgets("4", 50, 0, 4), UsageError);
}

}  // namespace kvsim::error_budgets_test
