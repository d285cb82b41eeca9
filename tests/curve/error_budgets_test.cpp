#include "sim/curve/error_budgets.h"

#include <catch2/catch.hpp>

#include "sim/base/errors.h"

namespace kvsim::error_budgets_test {

std::vector<int> budgets(const std::string& text, int num_tokens, int base) {
  return ErrorBudgets(text, "--output-error").of(num_tokens, base);
}

TEST_CASE("output errors are asked for at no, all, evenly spaced or listed budgets", "[curve]") {
  CHECK(budgets("none", 5, 5).empty());
  CHECK(budgets("all", 4, 4) == std::vector<int>{1, 2, 3, 4});
  CHECK(budgets("every:3", 9, 9) == std::vector<int>{3, 6, 9});
  CHECK(budgets("every:4", 9, 9) == std::vector<int>{4, 8, 9});
  CHECK(budgets("every:100", 9, 9) == std::vector<int>{9});
  CHECK(budgets("50%,2,0.1,2,1000", 40, 20) == std::vector<int>{2, 10, 40});
}

TEST_CASE("what names no budgets is refused with the option", "[curve]") {
  for (const char* text : {"", "some", "0", "5%,", "every:", "every:0", "every:5%", "1.5"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(ErrorBudgets(text, "--output-error"), UsageError);
    CHECK_THROWS_WITH(ErrorBudgets(text, "--output-error"), Catch::StartsWith("--output-error"));
  }
}

}  // namespace kvsim::error_budgets_test
