#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "sim/base/random_bits.h"
#include "tests/support/kept_tokens.h"

namespace kvsim::vatp_test {

using namespace policies_test;
using Steps = std::vector<std::int32_t>;
using Vectors = std::vector<std::vector<float>>;

Steps left_after(const std::string& spec, int budget, const Attention& attention,
                 const Vectors& values, int prompt = 0) {
  return evicted_after(Spec(spec), budget,
                       {.attention = attention, .values = values, .prompt = prompt});
}

// VATP by hand. Norms of the values: 2, 0.5, 4, 1, 2.
const Vectors kValues = {{1, -1}, {0, 0.5}, {-2, 2}, {1, 0}, {1, 1}};
const Attention kAttention = {{1},
                              {0.5, 0.5},
                              {0.5, 0.25, 0.25},
                              {0.25, 0.25, 0.25, 0.25},       // sums 2.25, 1.0, 0.5
                              {0.125, 0, 0.125, 0.25, 0.5}};  // without 1: 2.375, 0.625, 0.5

TEST_CASE("vatp evicts what has least attention times the L1 norm of its value", "[policies]") {
  // 4.5, 0.5, 2.0: token 1 goes; then 4.75, 2.5, 0.5: token 3.
  CHECK(left_after("vatp:recent=1,sinks=0", 3, kAttention, kValues) == Steps{5, 3, 5, 4, 5});
  // By attention alone token 2 goes first.
  CHECK(left_after("h2o:recent=1", 3, kAttention, {}) == Steps{5, 5, 3, 4, 5});
}

TEST_CASE("vatp keeps its sinks, whose values are short", "[policies]") {
  Vectors values = kValues;
  values[0] = {0, 0};
  CHECK(left_after("vatp:recent=1,sinks=0", 3, kAttention, values) == Steps{3, 4, 5, 5, 5});
  CHECK(left_after("vatp:recent=1,sinks=1", 3, kAttention, values) == Steps{5, 3, 5, 4, 5});
}

TEST_CASE("vatp leaves room for recent tokens before sinks", "[policies]") {
  const Attention attention = any_attention(9);
  const Vectors values(9, {1});
  CHECK(left_after("vatp:recent=2,sinks=20", 4, attention, values) ==
        evicted_after("sink:sinks=2", 4, attention));
  CHECK(left_after("vatp:recent=4,sinks=20", 4, attention, values) ==
        evicted_after("window", 4, attention));
}

TEST_CASE("vatp counts the attention of its history alone", "[policies]") {
  const Vectors values(4, {1});
  const Attention attention = {{1}, {1, 0}, {0.5, 0.25, 0.25}, {0.125, 0.375, 0.25, 0.25}};
  // Since arrival 2.625, 0.625, 0.5; in the last step 0.125, 0.375, 0.25.
  CHECK(left_after("vatp:recent=1,sinks=0", 3, attention, values) == Steps{4, 4, 3, 4});
  CHECK(left_after("vatp:recent=1,sinks=0,history=1", 3, attention, values) == Steps{3, 4, 4, 4});
  CHECK(left_after("vatp:recent=1,sinks=0,history=4", 3, attention, values) == Steps{4, 4, 3, 4});
}

/// The definition, written to be read.
struct Definition {
  const Attention& attention;
  const Vectors& values;
  int budget;
  int recent;
  int sinks;
  int history;

  double score(int token, int step) const {
    double sum = 0;
    for (int s = std::max(token, history == 0 ? 0 : step - history + 1); s <= step; ++s) {
      sum += attention[static_cast<std::size_t>(s)][static_cast<std::size_t>(token)];
    }
    double norm = 0;
    for (const float x : values[static_cast<std::size_t>(token)]) norm += std::abs(x);
    return sum * norm;
  }

  Steps evicted_after(int prompt) const {
    const int n = static_cast<int>(attention.size());
    Steps left(attention.size(), n);
    std::vector<int> resident;
    for (int t = 0; t < n; ++t) {
      resident.push_back(t);
      while (t + 1 >= prompt && std::ssize(resident) > budget) {
        const auto begin = resident.begin() + std::min(sinks, budget - std::min(recent, budget));
        const auto end = resident.end() - std::min(recent, budget);
        const auto lowest =
            std::min_element(begin, end, [&](int a, int b) { return score(a, t) < score(b, t); });
        left[static_cast<std::size_t>(*lowest)] = t;
        resident.erase(lowest);
      }
    }
    return left;
  }
};

TEST_CASE("vatp keeps what its definition keeps", "[policies]") {
  Attention attention;  // in steps of 1/8, whose sums are exact, and often equal
  Vectors values;
  for (std::uint64_t t = 0; t < 50; ++t) {
    std::vector<float>& row = attention.emplace_back();
    for (std::uint64_t j = 0; j <= t; ++j) {
      row.push_back(static_cast<float>(random_bits(t, j) % 8) / 8);
    }
    values.push_back({static_cast<float>(random_bits(t, 99) % 5) - 2, 1});
  }
  for (const int budget : {1, 2, 9, 30}) {
    for (const int recent : {0, 1, 5, 40}) {
      for (const int sinks : {0, 3, 20}) {
        for (const int history : {0, 1, 7, 100}) {
          const std::string spec = "vatp:recent=" + std::to_string(recent) +
                                   ",sinks=" + std::to_string(sinks) +
                                   ",history=" + std::to_string(history);
          for (const int prompt : {0, 40}) {
            CAPTURE(spec, budget, prompt);
            CHECK(left_after(spec, budget, attention, values, prompt) ==
                  Definition{attention, values, budget, recent, sinks, history}.evicted_after(
                      prompt));
          }
        }
      }
    }
  }
}

}  // namespace kvsim::vatp_test
