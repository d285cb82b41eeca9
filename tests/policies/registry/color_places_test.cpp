#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <vector>

#include "policies/registry/registry.h"

namespace kvsim::color_places_test {

/// Of the policies that are built in.
std::vector<int> sorted_places(bool references) {
  std::vector<int> places;
  for (const PolicyInfo& policy : policies()) {
    if (!policy.origin.empty() || policy.is_reference() != references) continue;
    INFO(policy.name);
    REQUIRE(policy.color_place);
    places.push_back(*policy.color_place);
  }
  std::sort(places.begin(), places.end());
  return places;
}

TEST_CASE("policies that compete have a colour each, and references a grey each") {
  for (const bool references : {false, true}) {
    const std::vector<int> places = sorted_places(references);
    REQUIRE(places.size() > 5);
    std::vector<int> counted(places.size());
    std::iota(counted.begin(), counted.end(), 0);
    CHECK(places == counted);
  }
}

TEST_CASE("what policies are measured by is a reference") {
  CHECK(find_policy("optimal").is_reference());
  CHECK(find_policy("topk").is_reference());
  CHECK_FALSE(find_policy("h2o").is_reference());
  CHECK_FALSE(find_policy("full").is_reference());
}

}  // namespace kvsim::color_places_test
