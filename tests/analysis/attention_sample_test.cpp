#include "analysis/attention_sample.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/support/units.h"
#include "traces/unit_seed.h"

namespace kvsim::analysis_test::attention_sample_test {

/// Weights of which no two of a step are equal.
HeadAttention weights_of(int tokens) {
  HeadAttention attention;
  attention.weight.resize(tokens, tokens);
  for (int t = 0; t < tokens; ++t) {
    for (int j = 0; j < tokens; ++j) {
      attention.weight(t, j) = static_cast<float>(1 + (j * 7 + t) % (2 * tokens + 1));
    }
  }
  return attention;
}

/// The sample of a head, drawn entry by entry.
std::vector<double> drawn_one_by_one(const Subject& subject, int head, int size, int first_step,
                                     const HeadAttention& attention) {
  const Unit& unit = subject.unit;
  double entries = 0;
  for (int t = first_step; t < unit.num_tokens(); ++t) {
    for (int j = 0; j < t; ++j) entries += is_visible(unit, t, j);
  }
  const double rate = entries == 0 ? 0 : std::min(1.0, size / entries);
  const std::uint64_t seed = random_bits(
      unit_seed(static_cast<std::uint64_t>(subject.seed), unit.name), "attention sample");
  std::vector<double> sample;
  for (int t = first_step; t < unit.num_tokens(); ++t) {
    double sum = 0;
    int count = 0;
    for (int j = 0; j < t; ++j) {
      if (!is_visible(unit, t, j)) continue;
      sum += attention.weight(t, j);
      ++count;
    }
    const std::uint64_t of_row = random_bits(random_bits(seed, static_cast<std::uint64_t>(head)),
                                             static_cast<std::uint64_t>(t));
    for (int j = 0; j < t; ++j) {
      const std::uint64_t bits = random_bits(of_row, static_cast<std::uint64_t>(j));
      if (!is_visible(unit, t, j) || static_cast<double>(bits) >= rate * 0x1p64) continue;
      sample.push_back(attention.weight(t, j) / sum * count);
    }
  }
  return sample;
}

TEST_CASE("to the last bit: a sample of blocks of entries is that of one entry after the other",
          "[analysis]") {
  for (const int tokens : {1, 127, 128, 129, 400}) {
    const HeadAttention attention = weights_of(tokens);
    for (const int window : {0, 1, 130}) {
      Unit unit = test_support::random_unit({.tokens = tokens, .group = 2}, 3);
      if (window > 0) unit.sliding_window = window;
      const Subject subject{.unit = unit, .runs = {}, .seed = 11};
      for (const int size : {3, 300, 20'000, 1'000'000}) {
        AttentionSample sample(subject, size, 2);
        for (int head = 0; head < 2; ++head) {
          for (int t = 0; t < tokens; ++t) {
            const std::vector<std::int32_t> visible = visible_tokens(unit, t);
            sample.add({head, t, first_visible(unit, t), visible, attention, t});
          }
          CAPTURE(tokens, window, size, head);
          CHECK(sample.of_head(head) == drawn_one_by_one(subject, head, size, 2, attention));
        }
      }
    }
  }
}

}  // namespace kvsim::analysis_test::attention_sample_test
