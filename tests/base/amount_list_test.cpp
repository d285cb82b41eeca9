#include "sim/base/amount_list.h"

#include <catch2/catch.hpp>

#include "sim/base/errors.h"

namespace kvsim::amount_list_test {

using Texts = std::vector<std::string>;

Texts amounts(std::string_view text) {
  Texts written;
  for (const Amount& amount : parse_amounts(text, "--budgets")) written.push_back(amount.written());
  return written;
}

TEST_CASE("a range of amounts goes from its first to its last if a step hits it") {
  CHECK(amounts("5%..25%:5%") == Texts{"5%", "10%", "15%", "20%", "25%"});
  CHECK(amounts("16..64:16") == Texts{"16", "32", "48", "64"});
  CHECK(amounts("16..63:16") == Texts{"16", "32", "48"});
  CHECK(amounts("0.5..1.0:0.25") == Texts{"0.5", "0.75", "1.0"});
  CHECK(amounts("2.5%..10%:2.5%") == Texts{"2.5%", "5%", "7.5%", "10%"});
  CHECK(amounts("7..7:3") == Texts{"7"});
  CHECK(amounts("64") == Texts{"64"});
  CHECK(amounts("20%") == Texts{"20%"});
}

TEST_CASE("the amounts of a range are those that a list would name") {
  const std::vector<Amount> amounts = parse_amounts("0.1..0.9:0.1", "--budgets");
  REQUIRE(amounts.size() == 9);
  CHECK(amounts[2].written() == "0.3");
  CHECK(amounts[2].value() == 0.3);
  CHECK(parse_amounts("1%..100%:1%", "")[28].of(1000) == 290);
  CHECK(parse_amounts("1%..100%:1%", "").size() == 100);
}

TEST_CASE("a range that cannot be meant is refused, naming what is wrong") {
  const std::vector<std::pair<const char*, const char*>> wrong{
      {"5%..50%", "has no step"},
      {"16..256", "has no step"},
      {"16..256:0", "found 0"},
      {"5%..50%:0%", "'5%..50%:0%': step '0%'"},
      {"16..256:-16", "'-16'"},
      {"256..16:16", "write 16..256:16"},
      {"5%..50%:5", "in one form"},
      {"5%..0.5:5%", "in one form"},
      {"5%..200%:5%", "'200%'"},
      {"..", "has no step"},
      {"..:", "''"},
      {"5%..:5%", "last amount ''"},
      {"..50%:5%", "'..50%:5%': first amount ''"},
      {"5%..50%:", "''"},
      {"1..2..3:1", "2..3"},
      {"1...5:1", "in one form"},
      {"1..2000000000:1", "1000"},
      {"0.0000001..1.0:0.0000001", "1000"},
      {"5%..50%:5%:5%", "'5%:5%'"},
      {"", "''"}};
  for (const auto& [text, reason] : wrong) {
    CAPTURE(text);
    CHECK_THROWS_AS(parse_amounts(text, "--budgets"), UsageError);
    CHECK_THROWS_WITH(parse_amounts(text, "--budgets"),
                      Catch::StartsWith("--budgets") && Catch::Contains(reason));
  }
}

TEST_CASE("a range of sizes is written in the unit of its first, or in bytes") {
  const auto written = [](std::string_view text) {
    Texts texts;
    for (const Amount& amount : parse_budget_amounts(text, "--budgets")) {
      texts.push_back(amount.written());
    }
    return texts;
  };
  CHECK(written("64KiB..256KiB:64KiB") == Texts{"64KiB", "128KiB", "192KiB", "256KiB"});
  CHECK(written("512KiB..2MiB:0.5MiB") == Texts{"512KiB", "1024KiB", "1536KiB", "2048KiB"});
  CHECK(written("1KiB..2KiB:500B") == Texts{"1KiB", "1524B", "2024B"});
  CHECK(written("5%..10%:5%") == Texts{"5%", "10%"});
  CHECK_THROWS_WITH(parse_budget_amounts("64KiB..256:64", ""), Catch::Contains("in one form"));
  CHECK_THROWS_WITH(parse_budget_amounts("64KiB..256KiB", ""), Catch::Contains("has no step"));
  CHECK_THROWS_WITH(parse_amounts("1KiB..2KiB:1KiB", "recent"), Catch::Contains("is a size"));
}

}  // namespace kvsim::amount_list_test
