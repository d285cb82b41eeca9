#include <catch2/catch.hpp>

#include "sim/results/version.h"
#include "tests/support/source_tree.h"

namespace kvsim::house::changelog_test {

TEST_CASE("house: the changelog names the version of the engine's numbers") {
  CHECK_THAT(read("CHANGELOG.md"),
             Catch::Contains("Results version " + std::to_string(kResultsVersion) + ":"));
}

}  // namespace kvsim::house::changelog_test
