#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>

#include "sim/base/errors.h"
#include "sim/kernels/percentile.h"
#include "sim/tiers/replace_pages.h"
#include "tests/tiers/reference_tiers.h"

namespace kvsim::tiers_test::replacement_test {

const std::vector<Replacement> kAll = parse_replacements("all", "--replace");

struct Text {
  int tokens;
  int page;
  int first_measured;
  int most;
};

const std::vector<Text> kTexts{{40, 1, 0, 4},  {40, 1, 17, 5}, {60, 4, 0, 3},
                               {61, 4, 30, 4}, {33, 16, 0, 1}, {25, 1, 0, 12}};

std::vector<int> all_places(const PageChoices& choices) {
  std::vector<int> places;
  for (int i = std::max(1, choices.most_chosen()); i <= choices.num_pages(); ++i) {
    places.push_back(i);
  }
  return places;
}

void check_equal(const Misses& found, std::vector<int> expected) {
  CHECK(found.sum == std::accumulate(expected.begin(), expected.end(), 0));
  CHECK(found.mean == Approx(static_cast<double>(found.sum) / std::ssize(expected)));
  std::sort(expected.begin(), expected.end());
  CHECK(found.max == expected.back());
  CHECK(found.p95 == Approx(percentile({expected.begin(), expected.end()}, 0.95)));
}

TEST_CASE("tiers: every replacement misses as the contract says, word for word, at every size") {
  for (const Text& text : kTexts) {
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
      const PageChoices choices =
          random_choices(text.tokens, text.page, text.first_measured, text.most, seed);
      const std::vector<int> places = all_places(choices);
      for (const Replacement replacement : kAll) {
        const auto found = replace_pages(choices, replacement, places).over(choices.steps());
        for (std::size_t i = 0; i < places.size(); ++i) {
          INFO(name_of(replacement) << " of " << text.tokens << " by " << text.page << ", places "
                                    << places[i] << ", seed " << seed);
          check_equal(found[i], reference_misses(choices, replacement, places[i] + 1));
        }
      }
    }
  }
}

TEST_CASE("tiers: some sizes miss as all sizes do") {
  const PageChoices choices = random_choices(50, 1, 0, 4, 9);
  const std::vector<int> places = all_places(choices);
  const std::vector<int> some{places[1], places[2], places[11], 1000};
  for (const Replacement replacement : kAll) {
    const auto all = replace_pages(choices, replacement, places).over(choices.steps());
    const auto found = replace_pages(choices, replacement, some).over(choices.steps());
    CHECK(found[0].sum == all[1].sum);
    CHECK(found[1].p95 == all[2].p95);
    CHECK(found[2].max == all[11].max);
    CHECK(found[3].sum == 0);
  }
}

TEST_CASE("tiers: no sequence of victims has fewer misses than belady") {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const int page = 1 + static_cast<int>(seed % 2);
    const PageChoices choices =
        random_choices(9 * page, page, seed % 3 == 0 ? 3 * page : 0, 3, seed);
    const std::vector<int> places = all_places(choices);
    const auto found = replace_pages(choices, Replacement::belady, places).over(choices.steps());
    for (std::size_t i = 0; i < places.size(); ++i) {
      INFO("seed " << seed << ", places " << places[i]);
      CHECK(found[i].sum == fewest_misses(choices, places[i] + 1));
    }
  }
}

TEST_CASE(
    "tiers: belady bounds all, larger caches of nesting ones miss less, a whole text nothing") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const PageChoices choices = random_choices(150, 3, seed % 2 == 0 ? 0 : 40, 6, seed);
    const std::vector<int> places = all_places(choices);
    const auto least = replace_pages(choices, Replacement::belady, places).over(choices.steps());
    for (const Replacement replacement : kAll) {
      const auto found = replace_pages(choices, replacement, places).over(choices.steps());
      for (std::size_t i = 0; i < places.size(); ++i) CHECK(found[i].sum >= least[i].sum);
      CHECK(found[places.size() - 1].sum == 0);
      if (replacement != Replacement::lru && replacement != Replacement::belady) continue;
      for (std::size_t i = 1; i < places.size(); ++i) CHECK(found[i].sum <= found[i - 1].sum);
    }
  }
}

TEST_CASE("tiers: a page that has just been completed is there, and stays until it is a victim") {
  PageChoices choices;
  choices.page = 2;
  choices.num_tokens = 8;
  choices.pages = {0, 1, 0};  // at steps 2, 4 and 7
  choices.end = {0, 0, 0, 1, 1, 2, 2, 2, 3};
  const auto one = replace_pages(choices, Replacement::lru, {1}).over(8);
  CHECK(one[0].sum == 1);  // page 0 left for page 1, which was chosen
  const auto two = replace_pages(choices, Replacement::lru, {2}).over(8);
  CHECK(two[0].sum == 1);  // page 0 left for page 3, as page 1 was used later
  CHECK(replace_pages(choices, Replacement::belady, {2}).over(8)[0].sum == 0);
}

TEST_CASE("tiers: replacements are named in any order, once") {
  CHECK(parse_replacements("belady,lru,lru", "--replace") ==
        std::vector{Replacement::lru, Replacement::belady});
  CHECK_THROWS_WITH(parse_replacements("lur", "--replace"),
                    Catch::StartsWith("--replace: unknown replacement 'lur'; did you mean 'lru'?"));
  CHECK_THROWS_AS(parse_replacements("", "--replace"), UsageError);
}

}  // namespace kvsim::tiers_test::replacement_test
