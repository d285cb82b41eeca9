#include <catch2/catch.hpp>
#include <cmath>

#include "sim/base/errors.h"
#include "tests/policies/stored_text.h"

namespace kvsim::kivi_test {

using namespace test_support;

const StoreContext kContext{.shape = {.head_dim = 5, .value_dim = 3}};
constexpr std::size_t kRecorded = (5 + 3) * 4;  // bytes of a token

/// A number between `least` and `largest` as two bits restore it.
float of_two_bits(float x, float least, float largest) {
  const float step = (largest - least) / 3;
  return std::nearbyint((x - least) / step) * step + least;
}

TEST_CASE("kivi quantises keys per channel over groups of the tokens that are held") {
  StoredText text("kivi:bits=2,group=2,residual=4", kContext);
  text.steps(3);
  text.step({1});  // 0, 2, 3 are left
  CHECK((text.has_key(0) && text.has_key(2) && text.has_key(3)));
  text.step();  // the fourth
  for (const auto& [one, other] : {std::pair{0, 2}, {3, 4}}) {
    for (std::size_t c = 0; c < 5; ++c) {
      CAPTURE(one, c);
      const auto [least, largest] = std::minmax(text.keys[static_cast<std::size_t>(one)][c],
                                                text.keys[static_cast<std::size_t>(other)][c]);
      for (const int token : {one, other}) {
        const float x = text.keys[static_cast<std::size_t>(token)][c];
        CHECK(text.store->at(token).key[c] == Approx(of_two_bits(x, least, largest)));
      }
    }
  }
  text.step();
  CHECK(text.has_key(5));
}

TEST_CASE("kivi quantises a value when it leaves the window, over its channels") {
  StoredText text("kivi:bits=2,group=4,residual=4", kContext);
  text.steps(4);
  CHECK(text.has_value(0));
  text.step({2});  // 0, 1, 3 and 4 are the newest four
  CHECK(text.has_value(0));
  text.step();
  CHECK_FALSE(text.has_value(0));
  CHECK((text.has_value(1) && text.has_value(5)));
  const std::vector<float>& value = text.values[0];
  const auto [least, largest] = std::minmax_element(value.begin(), value.end());
  for (std::size_t c = 0; c < 3; ++c) {
    CHECK(text.store->at(0).value[c] == Approx(of_two_bits(value[c], *least, *largest)));
  }
}

TEST_CASE("kivi leaves a prompt as recorded until its end, and then the remainder of its keys") {
  StoredText text("kivi:bits=2,group=8,residual=8", kContext);
  text.steps(9, true);
  for (int token = 0; token < 9; ++token) CHECK((text.has_key(token) && text.has_value(token)));
  CHECK(text.store->bytes() == 9 * kRecorded);
  text.step({3});  // 9 of 10 are left
  for (int token = 0; token < 10; ++token) {
    if (token == 3) continue;
    CAPTURE(token);
    CHECK(text.has_key(token) == (token == 9));
    CHECK(text.has_value(token) == (token >= 1));
  }
}

TEST_CASE("kivi keeps the scales of a group as long as one of its tokens is held") {
  StoredText text("kivi:bits=3,group=2,residual=4", kContext);
  const std::size_t code_bytes = 2;               // of a key: 15 bits
  const std::size_t scale_bytes = 2 * 5 * 4;      // of a group of keys
  const std::size_t value_bytes = 2 + 2 * 2 * 4;  // 9 bits, 2 groups
  text.steps(3);
  CHECK(text.store->bytes() == 3 * kRecorded);
  text.step();
  CHECK(text.store->bytes() == 4 * (code_bytes + 3 * 4) + 2 * scale_bytes);
  text.step({0});
  CHECK(text.store->bytes() == 3 * (code_bytes + 3 * 4) + 2 * scale_bytes + kRecorded);
  text.step({1});
  CHECK(text.store->bytes() == 2 * (code_bytes + 3 * 4) + scale_bytes + 2 * kRecorded);
  text.step();  // the value of token 2 leaves the window
  CHECK(text.store->bytes() ==
        code_bytes + value_bytes + code_bytes + 3 * 4 + scale_bytes + 3 * kRecorded);
}

TEST_CASE("a budget in bytes counts kivi's window as recorded and the rest quantised") {
  const auto kind = Spec("full+kivi:bits=3,group=2,residual=4").rules({.budget = 8}).store;
  CHECK(kind->bytes(kContext.shape, 4, 100) == 4 * kRecorded);
  const std::size_t old_bytes = 2 + (2 + 2 * 2 * 4);
  CHECK(kind->bytes(kContext.shape, 5, 100) == 4 * kRecorded + old_bytes + 40);
  CHECK(kind->bytes(kContext.shape, 7, 100) == 4 * kRecorded + 3 * old_bytes + 2 * 40);
  CHECK_FALSE(kind->keeps_evicted());
}

TEST_CASE("kivi stores halves as its program does, with scales of half precision") {
  StoredText text("kivi:bits=2,group=4,residual=4",
                  {.shape = {.head_dim = 5, .value_dim = 3, .key_bytes = 2, .value_bytes = 2}});
  text.steps(4);
  CHECK(text.store->bytes() == 4 * (2 + 3 * 2) + 2 * 5 * 2);
}

TEST_CASE("kivi refuses what it cannot change") {
  CHECK_THROWS_WITH(Spec("h2o+kivi:group=32,residual=48"), Catch::Contains("a multiple of group"));
  CHECK_THROWS_AS(Spec("h2o+kivi:group=32,residual=48"), UsageError);
  CHECK_THROWS_WITH(Spec("h2o+kivi+quant"), Catch::Contains("in another form already"));
  CHECK_THROWS_WITH(Spec("subgen+kivi"), Catch::Contains("an estimator"));
  CHECK_THROWS_WITH(Spec("topk+kivi"), Catch::Contains("it selects"));
  CHECK_THROWS_WITH(Spec("h2o+rest+kivi"), Catch::Contains("+rest"));
}

}  // namespace kvsim::kivi_test
