#include <catch2/catch.hpp>

#include "policies/registry/spec.h"
#include "sim/base/errors.h"

namespace kvsim::rest_test {

TEST_CASE("rest takes one token of the budget and leaves the policy the others", "[policies]") {
  CHECK(Spec("h2o").tokens_of(9) == 9);
  CHECK(Spec("h2o+rest").tokens_of(9) == 8);
  CHECK(Spec("h2o+rest+protect").tokens_of(9) == 8);
  CHECK(Spec("h2o+rest").tokens_of(1) == 0);
  // Shares are of what is left, wherever the combinators stand.
  CHECK(Spec("h2o:recent=50%+rest").rules({.budget = 9}).protect_newest == 4);
  for (const char* spec :
       {"lru+rest+protect:first=50%,last=0", "lru+protect:first=50%,last=0+rest"}) {
    CHECK(Spec(spec).rules({.budget = 21}).protect_first == 10);
  }
}

TEST_CASE("rest says that steps attend to one more entry", "[policies]") {
  CHECK_FALSE(Spec("window").rules({.budget = 8}).rest);
  CHECK(Spec("window").rules({.budget = 8}).is_exact());
  CHECK(Spec("window+rest").rules({.budget = 8}).rest);
  CHECK_FALSE(Spec("window+rest").rules({.budget = 8}).is_exact());
  CHECK_FALSE(Spec("window+rest").nests());
  CHECK(Spec("window+rest@pyramid").text() == "window+rest@pyramid");
  CHECK(Spec("window+rest").code() != Spec("window").code());
}

TEST_CASE("rest refuses what evicts nothing or attends to altered tokens", "[policies]") {
  struct Refused {
    const char* spec;
    const char* why;
  };
  for (const auto& [spec, why] :
       {Refused{"full+rest", "it evicts nothing"}, Refused{"topk+rest", "it selects"},
        Refused{"subgen+rest", "an estimator"}, Refused{"window+quant+rest", "+quant"},
        Refused{"window+rest+quant", "+quant"},
        Refused{"sink:positions=slot+rest", "positions=slot"}}) {
    CAPTURE(spec);
    CHECK_THROWS_AS(Spec(spec), UsageError);
    CHECK_THROWS_WITH(Spec(spec), Catch::StartsWith("+rest cannot change") && Catch::Contains(why));
  }
  CHECK_THROWS_AS(Spec("full").with(find_combinator("rest")), UsageError);
}

}  // namespace kvsim::rest_test
