#include <catch2/catch.hpp>
#include <cmath>

#include "policies/parts/min_max_codes.h"
#include "tests/policies/stored_text.h"

namespace kvsim::mikv_test {

using namespace test_support;

const StoreContext kContext{.shape = {.head_dim = 5, .value_dim = 3}};
constexpr std::size_t kRecorded = (5 + 3) * 4;  // bytes of a token

std::vector<float> rounded(std::vector<float> numbers, int bits, int group) {
  round_min_max(numbers, group, bits, 4);
  return numbers;
}

bool equal(std::span<const float> a, const std::vector<float>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

TEST_CASE("mikv keeps what is held at high bits and what is evicted at low bits, for good") {
  StoredText text("mikv:high=8,low=2,group=4,balancer=no", kContext);
  text.steps(3);
  CHECK(equal(text.store->at(1).key, rounded(text.keys[1], 8, 4)));
  text.step({1, 3});  // 3 leaves at its own step, and was never at high bits
  const auto low = [&](const std::vector<float>& numbers) { return rounded(numbers, 2, 4); };
  CHECK(equal(text.store->at(0).key, rounded(text.keys[0], 8, 4)));
  CHECK(equal(text.store->at(0).value, rounded(text.values[0], 8, 4)));
  CHECK(equal(text.store->at(1).key, low(rounded(text.keys[1], 8, 4))));
  CHECK(equal(text.store->at(1).value, low(rounded(text.values[1], 8, 4))));
  CHECK(equal(text.store->at(3).key, low(text.keys[3])));
  text.steps(2);
  CHECK(equal(text.store->at(3).key, low(text.keys[3])));
  CHECK(text.kind->keeps_evicted());
}

TEST_CASE("mikv with 16 high bits keeps what is held as recorded") {
  StoredText text("mikv:high=16,low=3", kContext);
  text.steps(3);
  text.step({0});
  CHECK((text.has_key(1) && text.has_value(3)));
  CHECK_FALSE(text.has_key(0));
}

TEST_CASE("mikv quantises a prompt at its end, from what was recorded") {
  StoredText text("mikv:high=4,low=2,group=8,balancer=no", kContext);
  text.steps(5, true);
  CHECK((text.has_key(0) && text.store->bytes() == 5 * kRecorded));
  text.step({2, 4});
  CHECK(equal(text.store->at(0).key, rounded(text.keys[0], 4, 8)));
  CHECK(equal(text.store->at(4).value, rounded(text.values[4], 2, 8)));
}

TEST_CASE("mikv's balancer is the root of the ratio of the largest query and key so far") {
  StoredText text("mikv:high=16,low=2,group=8", kContext);
  text.query = [](int t) { return normal_numbers(5, 3, 100 + t); };
  text.steps(4);
  text.step({1});
  std::vector<float> key = text.keys[1], balancer;
  for (std::size_t c = 0; c < 5; ++c) {
    float largest_query = 0;
    float largest_key = 0;
    for (int t = 0; t < 5; ++t) {
      largest_query = std::max(largest_query, std::fabs(text.query(t)[c]));
      largest_key = std::max(largest_key, std::fabs(text.keys[static_cast<std::size_t>(t)][c]));
    }
    balancer.push_back(std::sqrt(largest_query / largest_key));
    key[c] *= balancer[c];
  }
  round_min_max(key, 8, 2, 4);
  for (std::size_t c = 0; c < 5; ++c) CHECK(text.store->at(1).key[c] == key[c] / balancer[c]);
  CHECK(equal(text.store->at(1).value, rounded(text.values[1], 2, 8)));
  text.query = [](int) { return std::vector<float>(5, 1000); };  // too late to count
  text.step({2});
  key = text.keys[2];
  for (std::size_t c = 0; c < 5; ++c) key[c] *= balancer[c];
  round_min_max(key, 8, 2, 4);
  for (std::size_t c = 0; c < 5; ++c) CHECK(text.store->at(2).key[c] == key[c] / balancer[c]);
}

TEST_CASE(
    "a cache of mikv takes the bytes of what is held, of what was evicted, and the balancer") {
  const std::size_t high = 5 + 2 * 2 * 4 + 3 + 2 * 4;  // 8 bits; 2 groups of a key, 1 of a value
  const std::size_t low = 2 + 2 * 2 * 4 + 1 + 2 * 4;   // 10 and 6 bits
  StoredText text("mikv:high=8,low=2,group=4", kContext);
  text.query = [](int) { return std::vector<float>(5, 1); };
  text.steps(3);
  CHECK(text.store->bytes() == 3 * high);
  text.step({1});
  CHECK(text.store->bytes() == 3 * high + low + 5 * 4);
  CHECK(text.kind->bytes(kContext.shape, 3, 4) == 3 * high + low + 5 * 4);
  CHECK(text.kind->bytes(kContext.shape, 9, 4) == 9 * high + 5 * 4);
  // Scales of few bits may take more than a token as recorded.
  const auto odd = Spec("full+mikv:high=16,low=8,group=1,balancer=no").rules({.budget = 8}).store;
  CHECK(odd->bytes(kContext.shape, 2, 9) == 9 * ((5 + 3) + (5 + 3) * 2 * 4));
  CHECK(odd->bytes(kContext.shape, 2, 9) <= odd->bytes(kContext.shape, 3, 9));
}

TEST_CASE("mikv refuses what it cannot change") {
  CHECK_THROWS_WITH(Spec("spatten+mikv"), Catch::Contains("what leaves a layer leaves all later"));
  CHECK_THROWS_WITH(Spec("h2o+mikv:high=2,low=4"), Catch::Contains("low must not be above high"));
  CHECK_THROWS_WITH(Spec("sink:positions=slot+mikv"), Catch::Contains("have no position"));
  CHECK_THROWS_WITH(Spec("h2o+mikv+kivi"), Catch::Contains("in another form already"));
}

}  // namespace kvsim::mikv_test
