#include <catch2/catch.hpp>

#include "sim/base/errors.h"
#include "tests/support/kept_tokens.h"

namespace kvsim::protect_test {

using namespace policies_test;

TEST_CASE("window with its first tokens protected is sink", "[policies]") {
  const Attention attention = any_attention(12);
  for (const int budget : {1, 2, 3, 6}) {
    CHECK(evicted_after("window+protect:first=2,last=0", budget, attention) ==
          evicted_after("sink:sinks=2", budget, attention));
  }
}

TEST_CASE("protect reserves shares of the budget", "[policies]") {
  // Each step attends least to its own token and most to the first: tova alone would let every
  // newcomer go.
  const Attention attention(8, {0.9, 0.5, 0.4, 0.3, 0.2, 0.1, 0.05, 0.01});
  CHECK(evicted_after("tova", 4, attention) == std::vector<std::int32_t>{8, 8, 8, 8, 4, 5, 6, 7});
  CHECK(evicted_after("tova+protect:first=50%,last=0.25", 4, attention) ==
        std::vector<std::int32_t>{8, 8, 8, 4, 5, 6, 7, 8});
}

TEST_CASE("combinators stack, and the larger protection holds", "[policies]") {
  const Attention attention = any_attention(12);
  CHECK(evicted_after("window+protect:first=3,last=0+protect:first=1,last=0", 6, attention) ==
        evicted_after("window+protect:first=3,last=0", 6, attention));
}

TEST_CASE("a spec with a combinator has one canonical form", "[policies]") {
  CHECK(Spec("h2o+protect").text() ==
        "h2o:recent=0.5,score=sum,overlap=no,precision=double,positions=text,keep=heavy+protect:"
        "first=0.1,"
        "last=0.1");
  CHECK(Spec("tova:score=full+protect:last=8").text() ==
        "tova:scope=head,score=full+protect:first=0.1,last=8");
  CHECK(Spec(Spec("h2o+protect+protect:first=1").text()).text() ==
        Spec("h2o+protect+protect:first=1").text());
}

TEST_CASE("mistakes in a combinator are named", "[policies]") {
  const auto message = [](const char* spec) {
    try {
      Spec{spec};
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK_THAT(message("h2o+protct"), Catch::Contains("did you mean 'protect'?"));
  CHECK_THAT(message("h2o+"), Catch::Contains("unknown combinator ''"));
  CHECK_THAT(message("h2o+protect:frst=1"), Catch::Contains("did you mean 'first'?"));
  CHECK_THAT(message("h2o+protect:first=1.5"), Catch::Contains("combinator protect: first"));
}

}  // namespace kvsim::protect_test
