#include "sim/base/nearest.h"

#include <catch2/catch.hpp>
#include <vector>

namespace kvsim::nearest_test {

TEST_CASE("the nearest word has the fewest edits, the first of several") {
  const std::vector<std::string> words = {"window", "sink", "random", "h2o"};
  CHECK(nearest("h20", words) == "h2o");
  CHECK(nearest("rnadom", words) == "random");
  CHECK(nearest("sin", words) == "sink");
  CHECK(nearest("window", words) == "window");
  CHECK(nearest("ab", std::vector<std::string>{"ac", "bb"}) == "ac");
}

}  // namespace kvsim::nearest_test
