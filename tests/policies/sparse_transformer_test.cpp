#include <catch2/catch.hpp>

#include "sim/base/random_bits.h"
#include "tests/support/kept_tokens.h"

namespace kvsim::sparse_transformer_test {

using namespace policies_test;
using Steps = std::vector<std::int32_t>;

Steps by_position(std::string_view spec, int budget, std::size_t tokens, int prompt = 0) {
  return evicted_after(spec, budget, any_attention(tokens), {}, prompt);
}

// Sparse Transformers (Child et al., 2019), figure 3: the last tokens and every stride-th one.
TEST_CASE("strided keeps the last tokens, then columns, then the most recent others",
          "[policies]") {
  // The columns are 3, 7 and 11. Step 8 finds 2..8: the last four are 5..8, 3 is a column, of 2
  // and 4 the older goes. Step 11 finds 3 and 6..11: 8..11, the columns 3 and 7, so 6 goes.
  CHECK(by_position("strided:stride=4", 6, 12) ==
        Steps{6, 7, 8, 12, 9, 10, 11, 12, 12, 12, 12, 12});
}

TEST_CASE("strided drops its oldest columns when they do not fit", "[policies]") {
  // Columns are odd. Step 5 has 4 and 5 as its last two and the columns 1 and 3: 1 goes.
  CHECK(by_position("strided:stride=2", 3, 8) == Steps{3, 5, 4, 7, 6, 8, 8, 8});
}

TEST_CASE("strided with a stride as long as the budget is window", "[policies]") {
  CHECK(by_position("strided:stride=4", 4, 12) == by_position("window", 4, 12));
  CHECK(by_position("strided:stride=100", 4, 12) == by_position("window", 4, 12));
}

TEST_CASE("strided with every token a column is window", "[policies]") {
  CHECK(by_position("strided:stride=1", 4, 12) == by_position("window", 4, 12));
}

TEST_CASE("strided keeps of a prompt what it keeps of a stream while columns fit", "[policies]") {
  // The last three of ten are 7..9, the columns 2, 5 and 8.
  CHECK(by_position("strided:stride=3", 5, 10, 10) == Steps{9, 9, 10, 9, 9, 10, 9, 10, 10, 10});
}

TEST_CASE("fixed keeps the current block, then summaries, then the most recent others",
          "[policies]") {
  // Blocks 0-2, 3-5, 6-8 and 9-; their summaries are 2, 5 and 8. Step 6 opens a block:
  // in addition 5 and 2 stay, then 4 and 3, so 1 goes. Step 10 has 9 and 10, then 8, 5 and 2, so 7
  // goes.
  CHECK(by_position("fixed:block=3,summary=1", 5, 11) ==
        Steps{5, 6, 11, 7, 8, 11, 9, 10, 11, 11, 11});
}

TEST_CASE("fixed keeps as many last tokens of a block as its parameter asks for", "[policies]") {
  // 1, 2, 4, 5, 7 and 8 are summaries. Step 7 has no others left, so the oldest summary goes: 1.
  CHECK(by_position("fixed:block=3,summary=2", 5, 11) ==
        Steps{5, 7, 8, 6, 10, 11, 9, 11, 11, 11, 11});
}

TEST_CASE("fixed is window when a block fills the budget or summarises itself whole",
          "[policies]") {
  CHECK(by_position("fixed:block=100", 4, 12) == by_position("window", 4, 12));
  CHECK(by_position("fixed:block=3,summary=3", 4, 12) == by_position("window", 4, 12));
  CHECK(by_position("fixed:block=3,summary=100", 4, 12) == by_position("window", 4, 12));
}

// H2O (Zhang et al., NeurIPS 2023), Table 2.
TEST_CASE("a pattern shares its budget with heavy hitters", "[policies]") {
  const Attention attention = {{1.0},
                               {0.5, 0.5},
                               {0.5, 0.0, 0.5},
                               {0.5, 0.0, 0.0, 0.5},
                               {0.5, 0.0, 0.25, 0.0, 0.25},  // sums 3.0, 0.5, 0.75, 0.5, 0.25
                               {0.5, 0.0, 0.25, 0.0, 0.0, 0.25}};
  SECTION("strided") {
    // Alone, step 4 keeps 3 and 4, the column 1 and the later of 0 and 2; step 5 drops that too.
    CHECK(evicted_after("strided:stride=2", 4, attention) == Steps{4, 6, 5, 6, 6, 6});
    // With 0 and 2 as heavy hitters the pattern has room for two: 3 and 4, then 4 and 5.
    CHECK(evicted_after("strided:stride=2,h2=0.5", 4, attention) == Steps{6, 4, 6, 5, 6, 6});
  }
  SECTION("fixed") {
    // Blocks 0-3 and 4-: step 4 keeps 4, the summary 3 and 2 and 1 as most recent; step 5 drops 1.
    CHECK(evicted_after("fixed:block=4,summary=1", 4, attention) == Steps{4, 5, 6, 6, 6, 6});
    // With 0 and 2 as heavy hitters: 4 and 3, then 5 and 4.
    CHECK(evicted_after("fixed:block=4,summary=1,h2=0.5", 4, attention) == Steps{6, 4, 6, 5, 6, 6});
  }
}

TEST_CASE("a pattern reaches further where a heavy hitter is one of its own", "[policies]") {
  const Attention attention = {{1.0},
                               {1.0, 0.0},
                               {0.5, 0.0, 0.5},
                               {0.25, 0.0, 0.0, 0.75},
                               {0.25, 0.0, 0.0, 0.5, 0.25}};  // sums 3.0, 0.0, 0.5, 1.25, 0.25
  // The heavy hitters are 0 and 3. Of its two tokens the pattern spends one on 4, none on 3, which
  // is as recent, and so has one for the column 1.
  CHECK(evicted_after("strided:stride=2,h2=0.5", 4, attention) == Steps{5, 5, 4, 5, 5});
}

TEST_CASE("the share of heavy hitters is rounded to tokens", "[policies]") {
  // Sums 1.75 and 0.25. Half of one token is one heavy hitter, two fifths are none.
  const Attention attention = {{1.0}, {0.75, 0.25}};
  for (const std::string name : {"strided", "fixed"}) {
    CHECK(evicted_after(name + ":h2=0.5", 1, attention) == Steps{2, 1});
    CHECK(evicted_after(name + ":h2=0.4", 1, attention) == Steps{1, 2});
  }
}

TEST_CASE("of equally heavy tokens the later one is the heavy hitter", "[policies]") {
  const Attention attention = {{1}, {0, 1}, {0, 0, 1}, {0, 0, 0, 1}};
  // Always the newest, so the pattern keeps the one before.
  CHECK(evicted_after("strided:h2=0.5", 2, attention) == Steps{2, 3, 4, 4});
}

TEST_CASE("a pattern that leaves all of its budget to heavy hitters is h2o without a window",
          "[policies]") {
  Attention attention;
  for (std::uint64_t t = 0; t < 40; ++t) {
    std::vector<float>& row = attention.emplace_back();
    for (std::uint64_t j = 0; j <= t; ++j) {
      row.push_back(static_cast<float>(random_bits(t, j) % 1024) / 1024);
    }
  }
  for (const int budget : {1, 2, 7, 20}) {
    const Steps h2o = evicted_after("h2o:recent=0", budget, attention);
    CHECK(evicted_after("strided:h2=1", budget, attention) == h2o);
    CHECK(evicted_after("fixed:h2=1", budget, attention) == h2o);
  }
}

}  // namespace kvsim::sparse_transformer_test
