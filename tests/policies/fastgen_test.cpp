#include <catch2/catch.hpp>
#include <cmath>

#include "sim/base/random_bits.h"
#include "tests/support/kept_tokens.h"

namespace kvsim::fastgen_test {

using namespace policies_test;
using Steps = std::vector<std::int32_t>;

constexpr auto kWord = TokenKind::word;
constexpr auto kPunctuation = TokenKind::punctuation;
constexpr auto kSpecial = TokenKind::special;

// FastGen (Ge et al., ICLR 2024), Algorithm 1 by hand, with two of six tokens frequent and a window
// of one. The first six steps sum to 3.5, 1.25, 0.5, 0.25, 0.25 and 0.25. Of these 6 the special
// token recovers 3.5, the punctuation 0.25 more, the frequent tokens 0 and 1 another 1.25. A fifth
// of the text is one token from the third one on, so the window recovers of the others what they
// gave themselves: 0.25 each.
const Shown kShown = {.attention = {{1},
                                    {0.5, 0.5},
                                    {0.5, 0.25, 0.25},
                                    {0.5, 0.25, 0, 0.25},
                                    {0.5, 0, 0.25, 0, 0.25},
                                    {0.5, 0.25, 0, 0, 0, 0.25},
                                    {0.5, 0.125, 0.125, 0, 0, 0, 0.25}},
                      .kinds = {kSpecial, kWord, kWord, kPunctuation, kWord, kWord, kWord}};

Steps with_recovery(const std::string& recovery, int budget, const Shown& shown) {
  return evicted_after(Spec("fastgen:frequency=0.4,locality=0.2,recovery=" + recovery), budget,
                       shown);
}

TEST_CASE("fastgen takes the first hybrid that recovers enough attention", "[policies]") {
  SECTION("special tokens: 3.5 of 6") {
    CHECK(with_recovery("0", 5, kShown) == Steps{7, 5, 5, 5, 5, 5, 6});
    CHECK(with_recovery("0.58", 5, kShown) == Steps{7, 5, 5, 5, 5, 5, 6});
  }
  SECTION("and punctuation: 3.75") {
    CHECK(with_recovery("0.59", 5, kShown) == Steps{7, 5, 5, 7, 5, 5, 6});
    CHECK(with_recovery("0.625", 5, kShown) == Steps{7, 5, 5, 7, 5, 5, 6});
  }
  SECTION("and frequent tokens: 5") {
    CHECK(with_recovery("0.626", 5, kShown) == Steps{7, 7, 5, 7, 5, 5, 6});
    CHECK(with_recovery("0.83", 5, kShown) == Steps{7, 7, 5, 7, 5, 5, 6});
  }
  SECTION("and local tokens: 5.75") {  // 5 leaves the window as 6 comes in
    CHECK(with_recovery("0.84", 5, kShown) == Steps{7, 7, 5, 7, 5, 6, 7});
    CHECK(with_recovery("0.958", 5, kShown) == Steps{7, 7, 5, 7, 5, 6, 7});
  }
  SECTION("all tokens") {  // of those in no part, 4 has 0.25 and 2 has 0.5, and then 5 has less
    CHECK(with_recovery("0.959", 5, kShown) == Steps{7, 7, 7, 7, 5, 6, 7});
    CHECK(with_recovery("1", 5, kShown) == Steps{7, 7, 7, 7, 5, 6, 7});
  }
}

TEST_CASE("what a learned sink takes is recovered by every hybrid of fastgen", "[policies]") {
  // Tokens have half of what they had, so of 6 the sink has 3 and the special token 1.75.
  Shown shown = kShown;
  shown.sink_logit = {0};
  for (std::vector<float>& row : shown.attention) {
    for (float& share : row) share /= 2;
  }
  CHECK(with_recovery("0.79", 5, shown) == Steps{7, 5, 5, 5, 5, 5, 6});
  CHECK(with_recovery("0.8", 5, shown) == Steps{7, 5, 5, 7, 5, 5, 6});
  CHECK(with_recovery("0.91", 5, shown) == Steps{7, 7, 5, 7, 5, 5, 6});
  CHECK(with_recovery("0.97", 5, shown) == Steps{7, 7, 5, 7, 5, 6, 7});
}

TEST_CASE("fastgen drops nothing before the budget overflows", "[policies]") {
  CHECK(with_recovery("0", 6, kShown) == Steps{7, 6, 6, 6, 6, 6, 6});
  CHECK(with_recovery("0", 7, kShown) == Steps{7, 7, 7, 7, 7, 7, 7});
}

TEST_CASE("fastgen profiles a prompt at its end", "[policies]") {
  Shown prompt = kShown;
  prompt.prompt = 6;
  // At budget 2 a stream would profile its first three steps.
  CHECK(with_recovery("0.6", 2, prompt) == Steps{7, 5, 5, 7, 5, 5, 6});
  SECTION("or later, if the budget holds all of it") {
    CHECK(with_recovery("0.6", 6, prompt) == Steps{7, 6, 6, 7, 6, 6, 6});
  }
}

TEST_CASE("fastgen drops local, then frequent tokens, then punctuation from a short budget",
          "[policies]") {
  Shown prompt = kShown;
  prompt.prompt = 6;  // the hybrid wants 0, 3, 1 and 5
  prompt.attention.pop_back();
  CHECK(with_recovery("0.9", 4, prompt) == Steps{6, 6, 5, 6, 5, 6});
  CHECK(with_recovery("0.9", 3, prompt) == Steps{6, 6, 5, 6, 5, 5});
  CHECK(with_recovery("0.9", 2, prompt) == Steps{6, 5, 5, 6, 5, 5});
  CHECK(with_recovery("0.9", 1, prompt) == Steps{6, 5, 5, 5, 5, 5});
}

TEST_CASE("fastgen drops the least attended of a part first, of local tokens the oldest",
          "[policies]") {
  const Attention attention = {{1}, {0.75, 0.25}, {0.25, 0.25, 0.5}, {0.25, 0.0, 0.25, 0.5}};
  // Sums 2.25, 0.5, 0.75 and 0.5.
  const auto kept = [&](const char* ratios, TokenKind kind, int budget) {
    return evicted_after(Spec(std::string("fastgen:recovery=0.9,") + ratios), budget,
                         {.attention = attention, .kinds = {4, kind}, .prompt = 4});
  };
  for (const TokenKind kind : {kSpecial, kPunctuation}) {
    CHECK(kept("frequency=0,locality=0", kind, 3) == Steps{4, 3, 4, 4});
    CHECK(kept("frequency=0,locality=0", kind, 1) == Steps{4, 3, 3, 3});
  }
  CHECK(kept("frequency=1,locality=0", kWord, 3) == Steps{4, 3, 4, 4});
  CHECK(kept("frequency=1,locality=0", kWord, 1) == Steps{4, 3, 3, 3});
  CHECK(kept("frequency=0,locality=1", kWord, 3) == Steps{3, 4, 4, 4});
  CHECK(kept("frequency=0,locality=1", kWord, 1) == Steps{3, 3, 3, 4});
  CHECK(kept("frequency=0,locality=0", kWord, 3) == Steps{4, 3, 4, 4});
}

TEST_CASE("fastgen keeps special tokens and punctuation that come after the profile",
          "[policies]") {
  const auto kept = [](const char* recovery, TokenKind last) {
    Shown shown = kShown;
    shown.kinds.back() = last;
    return with_recovery(recovery, 5, shown).back() == 7;
  };
  CHECK(kept("0.5", kSpecial));
  CHECK_FALSE(kept("0.5", kPunctuation));
  CHECK(kept("0.6", kPunctuation));
  CHECK_FALSE(kept("0.6", kWord));
}

TEST_CASE("a token that draws attention takes the place of a frequent one", "[policies]") {
  Shown shown = kShown;
  shown.attention.back() = {0, 0, 0, 0, 0, 0, 1};
  shown.attention.push_back({0, 0, 0, 0, 0, 0, 0, 1});
  shown.kinds.push_back(kWord);
  // The sums are 3.5, 1.25 and 1 for 6, which leaves; had it 1.5, 1 would.
  CHECK(with_recovery("0.8", 5, shown) == Steps{8, 8, 5, 8, 5, 5, 6, 7});
  shown.attention[6].back() = 1.5;
  CHECK(with_recovery("0.8", 5, shown) == Steps{8, 6, 5, 8, 5, 5, 8, 7});
}

/// The hybrids by their definition, over a whole text.
struct Reference {
  const Shown& shown;
  double frequency;
  double locality;

  int size() const { return static_cast<int>(shown.attention.size()); }

  double attention(int step, int token) const {
    return shown.attention[static_cast<std::size_t>(step)][static_cast<std::size_t>(token)];
  }

  static int share(double ratio, int length) {
    return static_cast<int>(std::floor(ratio * length + 0.5));
  }

  double sum(int token) const {
    double sum = 0;
    for (int step = token; step < size(); ++step) sum += attention(step, token);
    return sum;
  }

  bool is_frequent(int token) const {
    int more = 0;
    for (int other = 0; other < size(); ++other) {
      more += sum(other) > sum(token) || (sum(other) == sum(token) && other > token);
    }
    return more < share(frequency, size());
  }

  // Whether `step` finds `token` in hybrid 1, 2, 3 or 4, the windows being shares of `length`.
  bool keeps(int hybrid, int step, int token, int length) const {
    const TokenKind kind = shown.kinds[static_cast<std::size_t>(token)];
    return kind == kSpecial || (hybrid >= 2 && kind == kPunctuation) ||
           (hybrid >= 3 && is_frequent(token)) ||
           (hybrid >= 4 && step - token < share(locality, length));
  }

  double recovery(int hybrid) const {
    double recovered = 0;
    for (int step = 0; step < size(); ++step) {
      for (int token = 0; token <= step; ++token) {
        if (keeps(hybrid, step, token, step + 1)) recovered += attention(step, token);
      }
    }
    return recovered / size();
  }

  /// Which tokens the hybrid keeps after the last step.
  Steps evicted_after(int hybrid) const {
    Steps left;
    for (int token = 0; token < size(); ++token) {
      left.push_back(keeps(hybrid, size() - 1, token, size()) ? size() : size() - 1);
    }
    return left;
  }
};

TEST_CASE("fastgen recovers what the definitions of its hybrids recover", "[policies]") {
  constexpr int kTokens = 24;
  int taken[5] = {};
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Shown shown = {.prompt = kTokens};
    for (std::uint64_t t = 0; t < kTokens; ++t) {
      std::vector<float>& row = shown.attention.emplace_back();
      float total = 0;
      for (std::uint64_t j = 0; j <= t; ++j) {
        const std::uint64_t draw = random_bits(random_bits(seed, t), j);
        row.push_back(static_cast<float>(draw % 1000 * (j % 5 == 0 ? 5 : 1) + 1));
        total += row.back();
      }
      for (float& share : row) share /= total;
      const std::uint64_t kind = random_bits(seed + 100, t) % 8;
      shown.kinds.push_back(kind == 0 ? kSpecial : kind == 1 ? kPunctuation : kWord);
    }
    for (const double ratio : {0.1, 0.25, 0.4}) {
      const Reference reference{shown, ratio, 0.3};
      for (int hybrid = 1; hybrid <= 4; ++hybrid) {
        const double recovery = reference.recovery(hybrid);
        if (recovery < 1e-3 || recovery > 0.999) continue;
        if (hybrid > 1 && recovery - reference.recovery(hybrid - 1) < 1e-3) continue;
        const auto left = [&](double threshold) {
          return evicted_after(Spec("fastgen:recovery=" + std::to_string(threshold) +
                                    ",frequency=" + std::to_string(ratio)),
                               kTokens - 1, shown);
        };
        CAPTURE(seed, ratio, hybrid, recovery);
        CHECK(left(recovery - 1e-4) == reference.evicted_after(hybrid));
        CHECK(left(recovery + 1e-4) != reference.evicted_after(hybrid));
        ++taken[hybrid];
      }
    }
  }
  for (int hybrid = 1; hybrid <= 4; ++hybrid) CHECK(taken[hybrid] >= 20);
}

}  // namespace kvsim::fastgen_test
