#include <catch2/catch.hpp>

#include "sim/base/errors.h"
#include "tests/policies/subgen_tokens.h"

namespace kvsim::subgen_budget_test {

using namespace policies_test;

TEST_CASE("subgen holds no more vectors than there is room for", "[policies]") {
  const Tokens tokens = random_tokens(60);
  for (const char* params : {"delta=0", "delta=2", "delta=1000", "delta=0,s=1,t=1",
                             "delta=0,s=100%", "delta=1,s=20,t=2", "delta=0,t=1000"}) {
    for (int room = std::string_view(params).ends_with("s=20,t=2") ? 43 : 4; room < 70; ++room) {
      const auto estimator = subgen(params, room);
      CAPTURE(params, room);
      for (int token = 0; token < tokens.count(); ++token) {
        estimator->update(tokens.arrival(token));
        REQUIRE(num_vectors(*estimator) <= room);
      }
    }
  }
}

TEST_CASE("without room for a sample and a cluster subgen has only the newest token",
          "[policies]") {
  const Tokens tokens = random_tokens(10);
  // A sample with its value takes 2, a cluster a representative and three samples.
  for (const int room : {0, 1, 2, 3, 5}) {
    const auto estimator = subgen("delta=1,t=3", room);
    CHECK(estimator->amounts() == Amounts{{"s", 0}, {"t", 0}, {"clusters", 0}, {"far_keys", 0}});
    for (int token = 0; token < tokens.count(); ++token) {
      estimator->update(tokens.arrival(token));
      CHECK(held(*estimator) == std::vector<Held>{{token, true, 1, 1}});
      CHECK(estimator->counter_bytes() == 0);
    }
  }
  const auto estimator = subgen("delta=1,t=3", 6);
  for (int token = 0; token < tokens.count(); ++token) estimator->update(tokens.arrival(token));
  CHECK(estimator->entries().size() > 1);
}

// With keys all different and delta 0 there are as many clusters as may be.
TEST_CASE("subgen fills with clusters what its value samples leave", "[policies]") {
  const Tokens tokens = random_tokens(100);
  const auto num_clusters = [&](const std::string& params, int room, int s, int t) {
    const auto estimator = subgen("delta=0," + params, room);
    for (int token = 0; token < tokens.count(); ++token) {
      estimator->update(tokens.arrival(token));
    }
    const auto numbers = static_cast<int>(estimator->counter_bytes()) - kMuBytes;
    const int of_clusters = numbers / kCountBytes - s;
    CHECK(of_clusters % (1 + t) == 0);
    CHECK(estimator->amounts() == Amounts{{"s", s},
                                          {"t", t},
                                          {"clusters", of_clusters / (1 + t)},
                                          {"far_keys", 100 - of_clusters / (1 + t)}});
    return of_clusters / (1 + t);
  };
  CHECK(num_clusters("s=8,t=4", 33, 8, 4) == 3);      // (33 - 16) / 5
  CHECK(num_clusters("s=0.25,t=4", 40, 10, 4) == 4);  // (40 - 20) / 5
  CHECK(num_clusters("s=1,t=1", 40, 1, 1) == 19);     // (40 - 2) / 2
  CHECK(num_clusters("s=100%,t=4", 40, 17, 4) == 1);  // (40 - 34) / 5: one cluster at least
  CHECK(num_clusters("s=25%,t=1", 20, 5, 1) == 5);    // (20 - 10) / 2
  CHECK(num_clusters("s=1,t=1", 400, 1, 1) == 100);
  CHECK(num_clusters("s=500,t=64", 100'000, 500, 64) == 100);
}

TEST_CASE("subgen runs with the s that a number asks for, or refuses it", "[policies]") {
  const auto samples = [](const std::string& s, int room) {
    return subgen("t=4,s=" + s, room)->amounts().at("s");
  };
  CHECK(samples("17", 39) == 17);
  CHECK_THROWS_WITH(samples("17", 38), Catch::Contains("take 39 vectors, but the budget leaves 38, "
                                                       "room for s=16 at most"));
  CHECK(samples("10000", 1'000'000) == 10'000);
  CHECK_THROWS_AS(samples("1", 6), UsageError);
  CHECK_THROWS_WITH(samples("0", 100), Catch::Contains("expected 1 to 1000000"));
  CHECK_THROWS_WITH(samples("0.25", 1'000'000'000), Catch::Contains("expected 1 to 1000000"));
}

TEST_CASE("subgen counts mu, its slots and the sizes of its clusters as well as vectors",
          "[policies]") {
  const auto estimator = subgen("delta=1,s=1,t=1", 20);
  CHECK(estimator->counter_bytes() == kMuBytes);
  const std::vector<float> value = {1};
  const std::vector<float> line = {0, 0.5F, 5, 4.5F};
  std::vector<std::size_t> bytes;
  for (std::size_t i = 0; i < line.size(); ++i) {
    estimator->update({static_cast<int>(i), std::span(line).subspan(i, 1), value});
    bytes.push_back(estimator->counter_bytes());
  }
  CHECK(bytes == std::vector<std::size_t>{20, 20, 28, 28});
}

}  // namespace kvsim::subgen_budget_test
