#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "policies/parts/mean_rotation.h"
#include "policies/parts/nonuniform_levels.h"
#include "tests/policies/stored_text.h"

namespace kvsim::kvquant_test {

using namespace test_support;

const std::vector<double> kFrequencies{1, 0.1};
const StoreContext kContext{.shape = {.head_dim = 5, .value_dim = 6},
                            .rotation = Rotation{.inverse_frequency = kFrequencies}};
constexpr std::size_t kRecorded = (5 + 6) * 4;  // bytes of a token

std::vector<double> rotated_back(std::span<const float> key, int position) {
  std::vector<double> numbers(key.begin(), key.end());
  MeanRotation(kFrequencies, false, -position).apply(numbers);
  return numbers;
}

TEST_CASE("k-means finds planted levels, and of two equally near ones the lower is taken") {
  std::vector<float> numbers;
  for (int i = 0; i < 60; ++i) {
    numbers.push_back(static_cast<float>(i % 4) * 10 + static_cast<float>(i % 3 - 1));
  }
  const std::vector<float> levels = kmeans_levels(numbers, 4);
  CHECK(levels == std::vector<float>{0, 10, 20, 30});
  CHECK(nearest_level(levels, 15) == 10);
  CHECK(nearest_level(levels, 99) == 30);
  CHECK(kmeans_levels({}, 2) == std::vector<float>{0, 0});
}

TEST_CASE("quantiles lie between numbers linearly") {
  const std::vector<float> sorted{1, 2, 4, 8};
  CHECK(quantile(sorted, 0) == 1);
  CHECK(quantile(sorted, 0.5) == 3);
  CHECK(quantile(sorted, 1) == 8);
}

TEST_CASE("kvquant quantises keys as they were before rotation, channel by channel") {
  StoredText text("kvquant:bits=2,outliers=0,sinks=0,calibration=40", kContext);
  text.steps(40);
  for (std::size_t c = 0; c < 5; ++c) {
    std::set<long> distinct;  // four levels in the range of each channel
    for (int t = 0; t < 40; ++t) {
      distinct.insert(std::lround(1000 * rotated_back(text.store->at(t).key, t)[c]));
    }
    std::size_t far = distinct.size();
    for (auto x = std::next(distinct.begin()); x != distinct.end(); ++x) {
      far -= *x - *std::prev(x) < 5;
    }
    CHECK(far <= 4);
  }
}

TEST_CASE("kvquant keeps everything as recorded until it has its levels, and the sinks for good") {
  StoredText text("kvquant:calibration=20,sinks=2", kContext);
  text.steps(19);
  for (int t = 0; t < 19; ++t) CHECK((text.has_key(t) && text.has_value(t)));
  CHECK(text.store->bytes() == 19 * kRecorded);
  text.step();
  for (int t = 0; t < 20; ++t) CHECK(text.has_key(t) == (t < 2));
  text.steps(3);
  CHECK((text.has_key(1) && !text.has_key(22) && !text.has_value(22)));
}

TEST_CASE("kvquant takes a prompt whole for its levels, however short") {
  StoredText text("kvquant:calibration=1000,sinks=1", kContext);
  text.steps(9, true);
  CHECK(text.has_key(8));
  text.step();
  CHECK((text.has_key(0) && !text.has_key(3) && !text.has_key(9)));
}

TEST_CASE("kvquant keeps outliers, and counts them and their places") {
  StoredText text("kvquant:bits=3,outliers=0.2,sinks=1,calibration=30", kContext);
  text.steps(30);
  const std::size_t shared = 2 * 5 * 4 + 2 * 8 * 4;  // ranges of channels, levels of both
  const std::size_t dense = 2 + 3 + 2 * 4 + 2 * 4;   // 15 and 18 bits, a range, two starts
  std::size_t outliers = 0;
  for (int t = 1; t < 30; ++t) {
    const std::vector<float>& value = text.values[static_cast<std::size_t>(t)];
    // The 10% and the 90% quantile of six numbers lie within their first and last gap.
    const auto [least, largest] = std::minmax_element(value.begin(), value.end());
    const std::span<const float> stored = text.store->at(t).value;
    CHECK(stored[static_cast<std::size_t>(least - value.begin())] == *least);
    CHECK(stored[static_cast<std::size_t>(largest - value.begin())] == *largest);
    outliers += 2;
    const auto key = rotated_back(text.keys[static_cast<std::size_t>(t)], t);
    const auto restored = rotated_back(text.store->at(t).key, t);
    for (std::size_t c = 0; c < 5; ++c) outliers += std::fabs(key[c] - restored[c]) < 1e-6;
  }
  CHECK(text.store->bytes() == kRecorded + shared + 29 * dense + outliers * (4 + 2));
  // Before it has levels nothing is quantised.
  CHECK(text.kind->bytes(kContext.shape, 29, 99) == 29 * kRecorded);
  // Of 99 tokens 20% of the keys' numbers, and the least and the largest of each value.
  CHECK(text.kind->bytes(kContext.shape, 100, 100) ==
        kRecorded + shared + 99 * dense + (99 + 2 * 99) * (4 + 2));
}

TEST_CASE("kvquant needs tokens for its levels that are no sinks") {
  CHECK_THROWS_WITH(Spec("h2o+kvquant:sinks=32"), Catch::Contains("calibration must be above"));
  CHECK_NOTHROW(Spec("h2o+kvquant:sinks=31"));
}

TEST_CASE("kvquant asks for the rotation of keys") {
  CHECK(Spec("h2o+kvquant").rules({.budget = 8}).sees_rotation);
  CHECK_THROWS_WITH(Spec("h2o+kvquant:outliers=1%"), Catch::Contains("outliers"));
}

}  // namespace kvsim::kvquant_test
