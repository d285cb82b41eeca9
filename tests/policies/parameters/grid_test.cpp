#include "policies/parameters/grid.h"

#include <catch2/catch.hpp>

#include "sim/base/errors.h"

namespace kvsim::grid_test {

using Texts = std::vector<std::string>;

TEST_CASE("braces stand for each of their entries, several for all combinations in order",
          "[policies]") {
  CHECK(expand_grid("h2o", "policy") == Texts{"h2o"});
  CHECK(expand_grid("", "policy") == Texts{""});
  CHECK(expand_grid("h2o:recent={0,0.5}", "policy") == Texts{"h2o:recent=0", "h2o:recent=0.5"});
  CHECK(expand_grid("{a,b}{c,d}e", "policy") == Texts{"ace", "ade", "bce", "bde"});
  CHECK(expand_grid("x={1}", "policy") == Texts{"x=1"});
}

TEST_CASE("braces that cannot be meant are refused, naming what is wrong", "[policies]") {
  const std::vector<std::pair<const char*, const char*>> wrong{
      {"a={", "not closed"},       {"a={0,1", "not closed"},    {"a={}", "are empty"},
      {"a={0,}", "empty entry"},   {"a={,}", "empty entry"},    {"a={0,{1,2}}", "within braces"},
      {"a=0,1}", "no '{' before"}, {"a={0}}", "no '{' before"}, {"}{", "no '{' before"},
      {"a={0,,1}", "empty entry"}};
  for (const auto& [text, reason] : wrong) {
    CAPTURE(text);
    CHECK_THROWS_AS(expand_grid(text, "policy"), UsageError);
    CHECK_THROWS_WITH(expand_grid(text, "policy"),
                      Catch::StartsWith("policy") && Catch::Contains(reason));
  }
}

TEST_CASE("a grid of more combinations than the limit is refused before it is made", "[policies]") {
  std::string ten = "{0,1,2,3,4,5,6,7,8,9}";
  CHECK(expand_grid(ten + ten + ten, "policy").size() == kMostOfAGrid);
  CHECK_THROWS_WITH(expand_grid(ten + ten + ten + ten, "policy"), Catch::Contains("1000"));
  for (int i = 0; i < 60; ++i) ten += "{0,1}";
  CHECK_THROWS_AS(expand_grid(ten, "policy"), UsageError);
}

TEST_CASE("a separator within braces separates nothing", "[policies]") {
  using Parts = std::vector<std::string_view>;
  CHECK(split_outside_braces("a;b", ';') == Parts{"a", "b"});
  CHECK(split_outside_braces("a{;};b", ';') == Parts{"a{;}", "b"});
  CHECK(split_outside_braces("", ';') == Parts{""});
  CHECK(split_outside_braces("a{;b", ';') == Parts{"a{;b"});
}

}  // namespace kvsim::grid_test
