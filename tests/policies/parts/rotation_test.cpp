#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "policies/parts/mean_rotation.h"
#include "policies/parts/vector_statistics.h"

namespace kvsim::rotation_test {

using Vector = std::vector<double>;

Vector turned(const MeanRotation& rotation, Vector vector) {
  rotation.apply(vector);
  return vector;
}

double product(const Vector& a, const Vector& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

void check_close(const Vector& a, const Vector& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(a[i] == Approx(b[i]).margin(1e-9));
}

TEST_CASE("the mean of rotations is the sum over positions, divided", "[policies]") {
  const Vector frequencies = {0, 1e-7, 0.03, 1};
  const Vector vector = {1, 2, 3, 4, -5, 6, 7, 8, 9};  // the last dimension is not rotated
  const bool interleaved = GENERATE(false, true);
  for (const int count : {1, 2, 7, 512, 5000}) {
    Vector sum(vector.size(), 0);
    for (int i = 0; i < count; ++i) {
      const Vector one = turned({frequencies, interleaved, 100 + i}, vector);
      for (std::size_t d = 0; d < sum.size(); ++d) sum[d] += one[d] / count;
    }
    CAPTURE(count, interleaved);
    check_close(turned({frequencies, interleaved, 100, count}, vector), sum);
  }
}

TEST_CASE("a rotation pairs dimensions by halves or as neighbours", "[policies]") {
  const Vector quarter = {std::acos(0.0), 0};
  check_close(turned({quarter, false, 1}, {1, 2, 3, 4}), {-3, 2, 1, 4});
  check_close(turned({quarter, true, 1}, {1, 2, 3, 4}), {-2, 1, 3, 4});
}

TEST_CASE("a rotation to minus a position undoes that to it", "[policies]") {
  const Vector frequencies = {1, 0.2};
  const Vector vector = {1, -2, 3, 5, 8};
  const bool interleaved = GENERATE(false, true);
  const MeanRotation there(frequencies, interleaved, 77);
  check_close(turned({frequencies, interleaved, -77}, turned(there, vector)), vector);
}

TEST_CASE("the transposed rotation moves to the other side of a product", "[policies]") {
  const Vector frequencies = {1, 0.2};
  const MeanRotation mean(frequencies, GENERATE(false, true), 9, 4);
  const Vector x = {1, -2, 3, 5, 8};
  const Vector y = {2, 7, -1, 8, 2};
  Vector moved = y;
  mean.apply_transposed(moved);
  CHECK(product(turned(mean, x), y) == Approx(product(x, moved)));
}

TEST_CASE("statistics of vectors are those along a direction", "[policies]") {
  VectorStatistics statistics(2, true);
  for (const Vector& vector : {Vector{1, 0}, {1, 2}, {4, 1}}) statistics.add(vector);
  // Along (1, 0): 1, 1, 4. Along (2, -1): 2, 0, 7.
  CHECK(statistics.mean_along(Vector{1, 0}) == Approx(2));
  CHECK(statistics.variance_along(Vector{1, 0}) == Approx(2));
  CHECK(statistics.mean_along(Vector{2, -1}) == Approx(3));
  CHECK(statistics.variance_along(Vector{2, -1}) == Approx(26.0 / 3));
}

}  // namespace kvsim::rotation_test
