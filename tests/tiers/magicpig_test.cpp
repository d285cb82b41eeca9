#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <numbers>
#include <numeric>

#include "sim/tiers/fetch.h"
#include "sim/tiers/key_hashes.h"
#include "tests/support/units.h"

namespace kvsim::tiers_test::magicpig_test {

using test_support::random_unit;

const Unit kUnit = random_unit({.tokens = 90, .head_dim = 6, .group = 2, .prompt_length = 30}, 5);

Fetches fetch(const std::string& selector, const std::vector<Replacement>& replace = {}) {
  const std::vector<std::string> lists{selector};
  return fetches_of({&kUnit, 1}, false, parse_selectors(lists),
                    {.resident = {Amount::parse("1.0", "")}, .replace = replace},
                    *make_cpu_backend())
      .units.front()
      .front();
}

TEST_CASE("tiers: hashes agree as often as the angle says") {
  const KeyHashes hashes(kUnit.key, Eigen::RowVectorXf::Zero(6), 4000, 2, 1);
  for (int token = 0; token < 90; token += 9) {
    const Eigen::RowVectorXf query = kUnit.query[0].row(token);
    const Eigen::RowVectorXf key = kUnit.key.row(token);
    const double angle = std::acos(query.dot(key) / (query.norm() * key.norm()));
    const double expected = std::pow(1 - angle / std::numbers::pi, 2);
    CHECK(hashes.num_equal(hashes.codes_of(query), token) / 4000.0 ==
          Approx(expected).margin(0.04));
    CHECK(hashes.num_equal(hashes.codes_of(key), token) == 4000);
  }
}

TEST_CASE("tiers: the weights of magicpig's samples count all tokens in the mean") {
  const SelectorSpec spec("magicpig:tables=20,bits=3");
  constexpr int kStep = 80;
  std::vector<std::int32_t> candidates(kStep);
  std::iota(candidates.begin(), candidates.end(), 0);
  double counted = 0;
  double sampled = 0;
  constexpr int kSeeds = 300;
  for (int seed = 0; seed < kSeeds; ++seed) {
    const auto selector = spec.make({kUnit, 0, static_cast<std::uint64_t>(seed)});
    std::vector<std::int32_t> chosen;
    selector->choose({.step = kStep, .row = 0, .candidates = candidates, .attention = {}}, chosen);
    const auto sample = selector->sample(1);
    CHECK(sample.back().token == kStep);
    CHECK(sample.back().denominator == 1);
    for (const Entry& entry : sample.first(sample.size() - 1)) {
      CHECK(std::binary_search(chosen.begin(), chosen.end(), entry.token));
      CHECK(entry.numerator == entry.denominator);
      counted += entry.denominator / kSeeds;
      sampled += 1.0 / kSeeds;
    }
  }
  CHECK(sampled < 60);
  CHECK(counted == Approx(kStep).epsilon(0.1));
}

TEST_CASE("tiers: more tables sample more and err less, and all of the text is exact") {
  const Fetches few = fetch("magicpig:tables=20,bits=4");
  const Fetches many = fetch("magicpig:tables=200,bits=4");
  const Fetches all = fetch("magicpig:tables=4000,bits=1");
  CHECK(few.quality.attended_mean < many.quality.attended_mean);
  CHECK(few.quality.output_error_sq > 2 * many.quality.output_error_sq);
  CHECK(all.quality.attention_recall == Approx(1).epsilon(1e-6));
  CHECK(all.quality.output_error_sq < 1e-9);
  CHECK(few.quality.output_error_sq == fetch("magicpig:tables=20,bits=4").quality.output_error_sq);
  CHECK(few.quality.summary_bytes == 90 * 80 / 8 + 80 * 6 * 4);
}

TEST_CASE("tiers: of what magicpig chooses all replacements fetch, and a whole device nothing") {
  const Fetches found = fetch("magicpig:tables=30,bits=3,page=4", parse_replacements("all", ""));
  CHECK(found.caches.size() == 6);
  for (const FetchedAt& cache : found.caches) CHECK(cache.misses.sum == 0);
  CHECK(found.quality.accesses > 0);
}

}  // namespace kvsim::tiers_test::magicpig_test
