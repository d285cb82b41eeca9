#include <catch2/catch.hpp>

#include "sim/replay/replay.h"
#include "tests/support/units.h"

namespace kvsim::key_policies_test {

using Steps = std::vector<std::int32_t>;
using Keys = std::vector<std::vector<float>>;

Steps evicted_after(const std::string& spec, int budget, const Keys& keys) {
  Unit unit = test_support::random_unit({.tokens = static_cast<int>(keys.size())}, 1);
  unit.key.resize(static_cast<int>(keys.size()), static_cast<int>(keys.front().size()));
  for (std::size_t t = 0; t < keys.size(); ++t) {
    for (std::size_t d = 0; d < keys[t].size(); ++d) {
      unit.key(static_cast<int>(t), static_cast<int>(d)) = keys[t][d];
    }
  }
  for (Matrix& query : unit.query) query = Matrix::Zero(unit.key.rows(), unit.key.cols());
  const ReplayOptions options{.trajectories = true};
  return replay(unit, {{Spec(spec), budget}}, options, *make_cpu_backend())
      .front()
      .trajectory.evicted_after;
}

TEST_CASE("knorm evicts the longest key", "[policies]") {
  // Lengths 5, 1, 2, 9, 0.5: step 2 drops 0, step 3 its own token, step 4 drops 2.
  CHECK(evicted_after("knorm", 2, {{3, 4}, {1, 0}, {0, 2}, {9, 0}, {0.3F, 0.4F}}) ==
        Steps{2, 5, 4, 3, 5});
}

TEST_CASE("keydiff evicts the key that is most like the others", "[policies]") {
  // Step 2: 0 and 1 point the same way, 1 a little towards 2, which makes it nearest to the mean.
  // Step 3: 0 and 3 cancel, so the mean points along 2.
  CHECK(evicted_after("keydiff", 2, {{1, 0}, {1, 0.1F}, {0, 1}, {-1, 0}}) == Steps{4, 2, 3, 4});
}

TEST_CASE("keydiff looks at directions, not at lengths", "[policies]") {
  CHECK(evicted_after("keydiff", 2, {{7, 0}, {0.2F, 0.02F}, {0, 3}, {-0.1F, 0}}) ==
        Steps{4, 2, 3, 4});
}

TEST_CASE("keydiff copes with keys of length zero", "[policies]") {
  CHECK(evicted_after("keydiff", 2, {{0, 0}, {0, 0}, {1, 0}}) == Steps{3, 3, 2});
}

}  // namespace kvsim::key_policies_test
