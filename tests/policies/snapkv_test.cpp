#include <algorithm>
#include <catch2/catch.hpp>

#include "sim/base/random_bits.h"
#include "tests/support/kept_tokens.h"

namespace kvsim::snapkv_test {

using namespace policies_test;
using Steps = std::vector<std::int32_t>;

/// What remains after a prompt as long as the table.
Steps compressed(const std::string& spec, int budget, const Attention& attention) {
  return evicted_after(spec, budget, attention, {}, static_cast<int>(attention.size()));
}

// SnapKV (Li et al., 2024), Listing 1 by hand: the last two of seven steps vote 0.75, 0, 0, 0.5,
// 0.5 for the tokens before them. The steps before voted for 1 and 2.
const Attention kAttention = {{1},
                              {0, 1},
                              {0, 0.5, 0.5},
                              {0, 0.5, 0.5, 0},
                              {0, 0.5, 0.5, 0, 0},
                              {0.5, 0, 0, 0.25, 0.25, 0},
                              {0.25, 0, 0, 0.25, 0.25, 0, 0.25}};

TEST_CASE("snapkv keeps its window and what its window voted for", "[policies]") {
  // Of 3 and 4 the earlier goes.
  CHECK(compressed("snapkv:window=2,kernel=1", 4, kAttention) == Steps{7, 6, 6, 6, 7, 7, 7});
}

TEST_CASE("snapkv pools votes over neighbours", "[policies]") {
  SECTION("by their maximum") {  // 0.75, 0.75, 0.5, 0.5, 0.5
    CHECK(compressed("snapkv:window=2,kernel=3,pool=max", 4, kAttention) ==
          Steps{7, 7, 6, 6, 6, 7, 7});
  }
  SECTION("by their sum") {  // 0.75, 0.75, 0.5, 1.0, 1.0
    CHECK(compressed("snapkv:window=2,kernel=3,pool=avg", 4, kAttention) ==
          Steps{6, 6, 6, 7, 7, 7, 7});
  }
  SECTION("an even number of them reaching further back") {  // 0.75, 0.75, 0.0, 0.5, 1.0
    CHECK(compressed("snapkv:window=2,kernel=2,pool=avg", 4, kAttention) ==
          Steps{6, 7, 6, 6, 7, 7, 7});
  }
}

TEST_CASE("snapkv pools no votes for its window", "[policies]") {
  Attention attention = kAttention;
  attention[5] = {0.5, 0, 0, 0.25, 0, 0.25};
  attention[6] = {0.25, 0, 0, 0.25, 0, 0.5, 0};
  // 0.75, 0.75, 0.5, 0.5, 0.5; with the 0.75 for token 5, token 4 would have 1.25.
  CHECK(compressed("snapkv:window=2,kernel=3,pool=avg", 4, attention) ==
        Steps{7, 7, 6, 6, 6, 7, 7});
}

TEST_CASE("snapkv forgets votes that have left its window", "[policies]") {
  // Three steps vote 0.75, 0.5, 0.5, 0.5 for the tokens before their own, four 0.75, 1.0, 1.0.
  CHECK(compressed("snapkv:window=3,kernel=1", 4, kAttention) == Steps{7, 6, 6, 6, 7, 7, 7});
  CHECK(compressed("snapkv:window=4,kernel=1", 5, kAttention) == Steps{6, 6, 7, 7, 7, 7, 7});
}

TEST_CASE("snapkv asks again at every overflow", "[policies]") {
  const Attention attention = {{1},
                               {1, 0},
                               {0.5, 0.5, 0},
                               {0.5, 0.25, 0.25, 0},       // of 0 and 1, 1 has less
                               {0.25, 0, 0.75, 0, 0},      // of 0 and 2, 0 has less
                               {0, 0, 0.25, 0.75, 0, 0}};  // of 2 and 3, 2 has 1.0, 3 has 0.75
  CHECK(evicted_after("snapkv:window=2,kernel=1", 3, attention) == Steps{4, 3, 6, 5, 6, 6});
}

TEST_CASE("snapkv whose window fills the budget is window", "[policies]") {
  CHECK(evicted_after("snapkv:window=3", 3, kAttention) == evicted_after("window", 3, kAttention));
  CHECK(evicted_after("snapkv:window=100", 3, kAttention) ==
        evicted_after("window", 3, kAttention));
}

/// Definitions written to be read: of the votes of the last `window` steps, and of whom they keep.
struct Reference {
  const Attention& attention;
  int budget;
  int window;
  int kernel;
  bool max;

  double votes(int token, int step) const {
    double sum = 0;
    for (int s = std::max(token, step - window + 1); s <= step; ++s) {
      sum += attention[static_cast<std::size_t>(s)][static_cast<std::size_t>(token)];
    }
    return sum;
  }

  Steps evicted_after(int prompt) const {
    const int n = static_cast<int>(attention.size());
    Steps left(attention.size(), n);
    std::vector<int> resident;
    for (int t = 0; t < n; ++t) {
      resident.push_back(t);
      if (t + 1 < prompt || std::ssize(resident) <= budget) continue;
      const auto older = std::ssize(resident) - std::min(window, budget);
      std::vector<std::pair<double, int>> pooled;
      for (int i = 0; i < older; ++i) {
        double pool = 0;
        for (int k = i - kernel / 2; k < i - kernel / 2 + kernel; ++k) {
          if (k < 0 || k >= older) continue;
          const double more = votes(resident[static_cast<std::size_t>(k)], t);
          pool = max ? std::max(pool, more) : pool + more;
        }
        pooled.emplace_back(pool, resident[static_cast<std::size_t>(i)]);
      }
      std::sort(pooled.begin(), pooled.end());
      for (std::size_t i = 0; std::ssize(resident) > budget; ++i) {
        left[static_cast<std::size_t>(pooled[i].second)] = t;
        std::erase(resident, pooled[i].second);
      }
    }
    return left;
  }
};

TEST_CASE("snapkv keeps what its definition keeps", "[policies]") {
  Attention attention;  // in steps of 1/8, whose sums are exact, and often equal
  for (std::uint64_t t = 0; t < 50; ++t) {
    std::vector<float>& row = attention.emplace_back();
    for (std::uint64_t j = 0; j <= t; ++j) {
      row.push_back(static_cast<float>(random_bits(t, j) % 8) / 8);
    }
  }
  for (const int budget : {2, 9, 30}) {
    for (const int window : {1, 2, 5, 16}) {
      for (const int kernel : {1, 2, 3, 5, 8, 50}) {
        for (const bool max : {false, true}) {
          const std::string spec = "snapkv:window=" + std::to_string(window) +
                                   ",kernel=" + std::to_string(kernel) +
                                   ",pool=" + (max ? "max" : "avg");
          for (const int prompt : {0, 40}) {
            CAPTURE(spec, budget, prompt);
            CHECK(evicted_after(spec, budget, attention, {}, prompt) ==
                  Reference{attention, budget, window, kernel, max}.evicted_after(prompt));
          }
        }
      }
    }
  }
}

}  // namespace kvsim::snapkv_test
