#include "policies/parameters/params.h"

#include <catch2/catch.hpp>

#include "sim/base/errors.h"

namespace kvsim::params_test {

const std::vector<Param> kDeclared = {Param::integer("count", 4, 0, 1000, "how many"),
                                      Param::real("rate", 0.25, 0, 1, "how fast"),
                                      Param::amount("recent", "0.5", "how recent"),
                                      Param::choice("score", {"sum", "mean"}, "of what")};

TEST_CASE("parameters start at their defaults", "[policies]") {
  const Params params(kDeclared);
  CHECK(params.integer("count") == 4);
  CHECK(params.real("rate") == 0.25);
  CHECK(params.amount("recent", 9) == 5);
  CHECK(params.choice("score") == "sum");
  CHECK(params.text() == "count=4,rate=0.25,recent=0.5,score=sum");
}

TEST_CASE("parameters are printed in declared order, equal values alike", "[policies]") {
  Params params(kDeclared);
  params.set("score", "mean", "it");
  params.set("rate", "5e-1", "it");
  params.set("recent", "12", "it");
  params.set("count", "007", "it");
  CHECK(params.text() == "count=7,rate=0.5,recent=12,score=mean");
  CHECK(params.amount("recent", 9) == 12);
  params.set("recent", "25%", "it");
  CHECK(params.text() == "count=7,rate=0.5,recent=0.25,score=mean");
}

TEST_CASE("the ends of a range are allowed", "[policies]") {
  Params params(kDeclared);
  params.set("count", "1000", "it");
  params.set("count", "0", "it");
  params.set("rate", "1", "it");
  params.set("rate", "0", "it");
  CHECK(params.text() == "count=0,rate=0,recent=0.5,score=sum");
}

struct Refused {
  const char* name;
  const char* value;
  const char* hint;
};

TEST_CASE("a value that is not allowed is refused with what is", "[policies]") {
  const auto refused =
      GENERATE(Refused{"count", "1001", "0..1000"}, Refused{"count", "-1", "0..1000"},
               Refused{"count", "1.5", "0..1000"}, Refused{"count", "abc", "0..1000"},
               Refused{"count", "", "0..1000"}, Refused{"count", "4 ", "0..1000"},
               Refused{"count", "99999999999999999999", "0..1000"}, Refused{"rate", "1.01", "0..1"},
               Refused{"rate", "-0.1", "0..1"}, Refused{"rate", "nan", "0..1"},
               Refused{"rate", "inf", "0..1"}, Refused{"rate", "1e400", "0..1"},
               Refused{"rate", "0.5x", "0..1"}, Refused{"recent", "1.5", "20%"},
               Refused{"recent", "", "20%"}, Refused{"score", "men", "'mean'"},
               Refused{"score", "", "sum|mean"}, Refused{"score", "SUM", "sum|mean"});
  Params params(kDeclared);
  CAPTURE(refused.name, refused.value);
  CHECK_THROWS_AS(params.set(refused.name, refused.value, "policy p"), UsageError);
  CHECK_THROWS_WITH(params.set(refused.name, refused.value, "policy p"),
                    Catch::StartsWith("policy p") && Catch::Contains(refused.name) &&
                        Catch::Contains(refused.hint));
  CHECK(params.text() == Params(kDeclared).text());
}

TEST_CASE("an unknown parameter is refused with the nearest one", "[policies]") {
  Params params(kDeclared);
  CHECK_THROWS_WITH(params.set("recnt", "1", "policy p"), Catch::Contains("'recent'"));
  CHECK_THROWS_WITH(params.set("scores", "sum", "policy p"), Catch::Contains("'score'"));
  CHECK_THROWS_AS(params.set("", "1", "policy p"), UsageError);
  Params none({});
  CHECK_THROWS_AS(none.set("recent", "1", "policy p"), UsageError);
  CHECK(none.text() == "");
}

TEST_CASE("asking for a parameter that is not declared so is a mistake in the code", "[policies]") {
  const Params params(kDeclared);
  CHECK_THROWS_AS(params.integer("rate"), std::logic_error);
  CHECK_THROWS_AS(params.choice("none"), std::logic_error);
}

}  // namespace kvsim::params_test
