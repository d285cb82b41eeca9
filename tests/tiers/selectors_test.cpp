#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "sim/base/errors.h"
#include "sim/tiers/fetch.h"
#include "sim/tiers/key_codebooks.h"
#include "tests/support/reference_replay.h"
#include "tests/support/units.h"

namespace kvsim::tiers_test::selectors_test {

using test_support::random_unit;
using test_support::ReferenceUnit;
using test_support::UnitShape;

/// What a selector chooses of a unit.
PageChoices chosen_by(const SelectorSpec& selector, const Unit& unit, Mode mode = Mode::stream) {
  const auto backend = make_cpu_backend();
  ReplayedUnit replayed(unit, *backend, {.mode = mode});
  AttendedPages pages(selector, replayed, false, 0);
  std::vector<PageAttention> attention(kBlockSteps, PageAttention(unit, selector.page()));
  for (int step = 0; step < unit.num_tokens(); step += kBlockSteps) {
    const int count = std::min(kBlockSteps, unit.num_tokens() - step);
    replayed.compute(step, count);
    for (int row = 0; row < count; ++row) attention[row].sum(replayed.block(), row);
    pages.add_block(attention);
  }
  return pages.choices();
}

/// Scores of the older pages of a step, summed over query heads.
using Scores = std::vector<double>;

Scores attention_to_pages(const ReferenceUnit& unit, int step, int page) {
  Scores scores(static_cast<std::size_t>(step / page));
  for (const auto& head : unit.heads) {
    for (std::size_t i = 0; i < scores.size() * page; ++i) {
      scores[i / page] += head.full[step][i] / static_cast<double>(unit.heads.size());
    }
  }
  return scores;
}

std::vector<std::int32_t> best(const Scores& scores, int count) {
  std::vector<std::int32_t> pages(scores.size());
  for (std::size_t i = 0; i < pages.size(); ++i) pages[i] = static_cast<std::int32_t>(i);
  std::sort(pages.begin(), pages.end(), [&](int a, int b) { return scores[a] > scores[b]; });
  pages.resize(std::min<std::size_t>(pages.size(), static_cast<std::size_t>(count)));
  std::sort(pages.begin(), pages.end());
  return pages;
}

std::vector<std::int32_t> at(const PageChoices& choices, int step) {
  return {choices.at(step).begin(), choices.at(step).end()};
}

const Unit kUnit = random_unit({.tokens = 75, .head_dim = 6, .group = 2, .prompt_length = 20}, 7);

TEST_CASE("tiers: topk chooses the pages with the most attention, k in whole pages") {
  const ReferenceUnit reference(kUnit);
  for (const int page : {1, 4}) {
    const auto choices = chosen_by(SelectorSpec("topk:k=6", page), kUnit);
    for (int step = 0; step < 75; ++step) {
      CHECK(at(choices, step) ==
            best(attention_to_pages(reference, step, page), page == 1 ? 6 : 2));
    }
  }
}

TEST_CASE("tiers: top-p chooses the fewest pages with which a step reaches its share") {
  const ReferenceUnit reference(kUnit);
  for (const int page : {1, 4}) {
    const auto choices = chosen_by(SelectorSpec("top-p:p=0.8", page), kUnit);
    for (int step = 0; step < 75; ++step) {
      const Scores scores = attention_to_pages(reference, step, page);
      double sum = 1;  // the rest is attention to the step's own page
      for (const double score : scores) sum -= score;
      Scores sorted = scores;
      std::sort(sorted.rbegin(), sorted.rend());
      int count = 0;
      while (sum < 0.8) sum += sorted[count++];
      CHECK(at(choices, step) == best(scores, count));
    }
  }
}

TEST_CASE("tiers: quest chooses by the largest product of its page's extremes") {
  const auto choices = chosen_by(SelectorSpec("quest:k=12,page=4"), kUnit);
  for (int step = 0; step < 75; ++step) {
    Scores scores(static_cast<std::size_t>(step / 4));
    for (std::size_t page = 0; page < scores.size(); ++page) {
      const auto keys = kUnit.key.middleRows(static_cast<Eigen::Index>(page) * 4, 4);
      for (const Matrix& query : kUnit.query) {
        for (int d = 0; d < 6; ++d) {
          const double q = query(step, d);
          scores[page] += std::max(q * keys.col(d).minCoeff(), q * keys.col(d).maxCoeff());
        }
      }
    }
    CHECK(at(choices, step) == best(scores, 3));
  }
}

TEST_CASE("tiers: sparq chooses by the attention that the largest components of the query give") {
  const auto choices = chosen_by(SelectorSpec("sparq:k=5,rank=3"), kUnit);
  for (int step = 0; step < 75; ++step) {
    Scores sizes(6);
    for (const Matrix& query : kUnit.query) {
      for (int d = 0; d < 6; ++d) sizes[d] += std::abs(double{query(step, d)});
    }
    const auto components = best(sizes, 3);
    Scores scores(static_cast<std::size_t>(step));
    for (const Matrix& query : kUnit.query) {
      double kept = 0;
      double whole = 0;
      for (const int d : components) kept += std::abs(double{query(step, d)});
      for (int d = 0; d < 6; ++d) whole += std::abs(double{query(step, d)});
      std::vector<double> logit;
      std::vector<int> tokens;
      for (int j = 0; j <= step; ++j) {
        double product = 0;
        for (const int d : components) product += double{query(step, d)} * kUnit.key(j, d);
        logit.push_back(product * kUnit.scale / std::sqrt(kept / whole));
        tokens.push_back(j);
      }
      const auto weight =
          test_support::softmax(logit, tokens, -std::numeric_limits<double>::infinity());
      for (int j = 0; j < step; ++j) scores[j] += weight[j];
    }
    CHECK(at(choices, step) == best(scores, 5));
  }
  CHECK(chosen_by(SelectorSpec("sparq:k=5,rank=32"), kUnit).pages ==
        chosen_by(SelectorSpec("topk:k=5"), kUnit).pages);
}

TEST_CASE("tiers: pq chooses by the keys as coded, and with a code per key as topk does") {
  // Keys in four places far apart: two bits name them, so the codes lose nothing.
  Unit unit = random_unit({.tokens = 60, .head_dim = 6, .group = 2, .prompt_length = 20}, 4);
  for (int token = 0; token < 60; ++token) {
    for (int d = 0; d < 6; ++d) {
      unit.key(token, d) = static_cast<float>((token * 7 % 4 == d % 4 ? 2 : -1) * (d < 3 ? 1 : 2));
    }
  }
  const ReferenceUnit reference(unit);
  for (const Mode mode : {Mode::stream, Mode::prefill}) {
    const auto coded = chosen_by(SelectorSpec("pq:k=16,groups=2,bits=2,page=4"), unit, mode);
    for (int step = mode == Mode::stream ? 0 : 20; step < 60; ++step) {
      // Pages that differ in attention by rounding alone may stand for one another.
      const Scores scores = attention_to_pages(reference, step, 4);
      double found = 0;
      double most = 0;
      for (const int page : coded.at(step)) found += scores[page];
      for (const int page : best(scores, 4)) most += scores[page];
      CHECK(found == Approx(most).epsilon(1e-5));
    }
  }
  CHECK(chosen_by(SelectorSpec("pq:k=5,groups=3,bits=8"), kUnit).pages ==
        chosen_by(SelectorSpec("topk:k=5"), kUnit).pages);
  CHECK_THROWS_WITH(chosen_by(SelectorSpec("pq:groups=4"), kUnit),
                    Catch::Contains("a divisor of the 6 dimensions"));
}

TEST_CASE("tiers: codebooks have less error with more bits, and depend on the seed alone") {
  const auto error = [&](int bits, std::uint64_t seed) {
    const KeyCodebooks books(kUnit.key, 75, 2, bits, seed);
    std::vector<float> product;
    double sum = 0;
    for (int step = 0; step < 75; ++step) {
      books.multiply(kUnit.query[0].row(step).data(), 10, 75, product);
      for (int j = 10; j < 75; ++j) {
        sum += std::abs(product[j - 10] - kUnit.query[0].row(step).dot(kUnit.key.row(j)));
      }
    }
    return sum;
  };
  CHECK(error(5, 1) < 0.7 * error(3, 1));
  CHECK(error(3, 1) < 0.9 * error(1, 1));
  CHECK(error(7, 1) < 1e-2);
  CHECK(error(3, 1) == error(3, 1));
  CHECK(error(3, 1) != error(3, 2));
}

TEST_CASE("tiers: in prefill mode nothing is chosen while the prompt attends in full") {
  const auto choices = chosen_by(SelectorSpec("topk:k=6"), kUnit, Mode::prefill);
  const auto all = chosen_by(SelectorSpec("topk:k=6"), kUnit);
  for (int step = 0; step < 75; ++step) {
    CHECK(at(choices, step) == (step < 20 ? std::vector<std::int32_t>() : at(all, step)));
  }
}

TEST_CASE("tiers: no page is chosen of which the step sees nothing") {
  Unit window = random_unit({.tokens = 60, .head_dim = 4}, 3);
  window.sliding_window = 10;
  const Unit selected = random_unit({.tokens = 60, .head_dim = 4, .selected = 9}, 3);
  for (const Unit* unit : std::vector<const Unit*>{&window, &selected}) {
    for (const char* text : {"topk:k=40,page=4", "quest:k=40,page=4", "sparq:k=40,rank=2,page=4",
                             "top-p:p=1,page=4"}) {
      const auto choices = chosen_by(SelectorSpec(text), *unit);
      for (int step = 0; step < 60; ++step) {
        std::vector<std::int32_t> seen;
        for (int page = 0; page < step / 4; ++page) {
          bool sees = false;
          for (int i = 0; i < 4; ++i) sees = sees || is_visible(*unit, step, page * 4 + i);
          if (sees) seen.push_back(page);
        }
        const bool takes_all = std::string(text).find("k=40") != std::string::npos;
        if (takes_all) CHECK(at(choices, step) == seen);
        for (const int page : choices.at(step)) {
          CHECK(std::count(seen.begin(), seen.end(), page) == 1);
        }
      }
    }
  }
}

TEST_CASE("tiers: a spec is written in full, and its page is its own before that of the command") {
  CHECK(SelectorSpec("quest").text() == "quest:k=64,page=16");
  CHECK(SelectorSpec("quest:page=8", 4).text() == "quest:k=64,page=8");
  CHECK(SelectorSpec("topk:k=5", 4).text() == "topk:k=5,page=4");
  CHECK(SelectorSpec("topk:k=5", 4).attended() == 8);
  CHECK_FALSE(SelectorSpec("top-p").attended());
  const std::vector<std::string> lists{"topk:k={4,8}; quest", "topk:k=4"};
  CHECK(parse_selectors(lists).size() == 3);
}

TEST_CASE("tiers: an unknown selector or parameter names the nearest one") {
  using Catch::StartsWith;
  CHECK_THROWS_WITH(SelectorSpec("qest"), StartsWith("unknown selector 'qest'; did you mean 'que"));
  CHECK_THROWS_WITH(SelectorSpec("topk:n=4"), StartsWith("selector topk has no parameter 'n'"));
  CHECK_THROWS_WITH(SelectorSpec("topk:k"), StartsWith("selector topk: expected key=value"));
  CHECK_THROWS_WITH(SelectorSpec("top-p:p=2"), StartsWith("selector top-p: p='2' is not allowed"));
  CHECK_THROWS_WITH(SelectorSpec("topk", 0), StartsWith("--page: page='0' is not allowed"));
  const std::vector<std::string> none{" ; "};
  CHECK_THROWS_AS(parse_selectors(none), UsageError);
}

}  // namespace kvsim::tiers_test::selectors_test
