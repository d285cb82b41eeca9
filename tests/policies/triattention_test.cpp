#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <complex>

#include "policies/registry/registry.h"
#include "sim/base/random_bits.h"
#include "tests/support/kept_tokens.h"

namespace kvsim::triattention_test {

using namespace policies_test;
using Complex = std::complex<double>;

constexpr std::size_t kDim = 6;
constexpr std::size_t kPairs = 2;  // two dimensions are not rotated
const std::vector<double> kFrequencies = {1.0, 0.1};

std::vector<float> vector_of(std::uint64_t seed) {
  std::vector<float> numbers;
  for (std::uint64_t d = 0; d < kDim; ++d) {
    numbers.push_back(static_cast<float>(random_bits(seed, d) % 2001) / 1000 - 1 + 0.3F);
  }
  return numbers;
}

Complex pair_of(const std::vector<float>& vector, std::size_t pair, bool interleaved) {
  if (interleaved) return {vector[2 * pair], vector[2 * pair + 1]};
  return {vector[pair], vector[pair + kPairs]};
}

/// The paper's series, term by term: amplitudes, phases and distances.
struct Definition {
  std::vector<std::vector<float>> keys;
  std::vector<std::vector<std::vector<float>>> queries;
  bool interleaved = false;
  int reach = 65536;
  bool maximum = false;
  bool whole = false;

  double score(std::size_t head, std::size_t token) const {
    const std::size_t n = queries.size();
    std::vector<double> of_offsets;
    double norms = 0;
    for (int offset = 1; offset <= reach; offset *= 2) of_offsets.push_back(0);
    for (std::size_t pair = 0; pair < kPairs; ++pair) {
      Complex centre = 0;
      double length = 0;
      for (std::size_t t = 0; t < n; ++t) {
        const Complex query = pair_of(queries[t][head], pair, interleaved) *
                              std::polar(1.0, -kFrequencies[pair] * static_cast<double>(t));
        centre += query / static_cast<double>(n);
        length += std::abs(query) / static_cast<double>(n);
      }
      const Complex key = pair_of(keys[token], pair, interleaved) *
                          std::polar(1.0, -kFrequencies[pair] * static_cast<double>(token));
      const double phase = std::arg(centre) - std::arg(key);
      norms += (whole ? length : length - std::abs(centre)) * std::abs(key);
      int offset = 1;
      for (double& sum : of_offsets) {
        const double distance = static_cast<double>(n - token) + offset;
        sum += std::abs(centre) * std::abs(key) * std::cos(distance * kFrequencies[pair] + phase);
        offset *= 2;
      }
    }
    double unrotated = 0;
    for (std::size_t d = 2 * kPairs; d < kDim; ++d) {
      for (std::size_t t = 0; t < n; ++t) {
        unrotated += double{queries[t][head][d]} * keys[token][d] / static_cast<double>(n);
      }
    }
    double joined = 0;
    for (const double sum : of_offsets) joined += sum / static_cast<double>(of_offsets.size());
    if (maximum) joined = *std::max_element(of_offsets.begin(), of_offsets.end());
    return joined + norms + unrotated;
  }
};

std::vector<double> scores_of(const std::string& spec, const Definition& shown) {
  const std::size_t n = shown.keys.size();
  Context context{.budget = static_cast<int>(n) - 1};
  context.rotation = Rotation{.inverse_frequency = kFrequencies, .interleaved = shown.interleaved};
  const auto policy = Spec(spec).make(context);
  const std::vector<float> keys = joined(shown.keys);
  std::vector<std::int32_t> tokens;
  std::vector<double> scores;
  for (std::size_t t = 0; t < n; ++t) {
    tokens.push_back(static_cast<std::int32_t>(t));
    scores.push_back(0);
    std::vector<std::span<const float>> queries(shown.queries[t].begin(), shown.queries[t].end());
    policy->update({.index = static_cast<int>(t),
                    .tokens = tokens,
                    .keys = {keys.data(), kDim, tokens},
                    .queries = queries,
                    .kinds = {},
                    .overflow = t + 1 == n ? 1 : 0},
                   scores);
  }
  return scores;
}

Definition example(std::size_t heads, bool interleaved) {
  Definition shown;
  shown.interleaved = interleaved;
  for (std::uint64_t t = 0; t < 20; ++t) {
    shown.keys.push_back(vector_of(t));
    shown.queries.emplace_back();
    for (std::uint64_t head = 0; head < heads; ++head) {
      shown.queries.back().push_back(vector_of(1000 + 10 * t + head));
    }
  }
  return shown;
}

TEST_CASE("triattention scores by the trigonometric series of the centre", "[policies]") {
  Definition shown = example(1, GENERATE(false, true));
  const auto check = [&](const std::string& spec) {
    const std::vector<double> found = scores_of(spec, shown);
    for (std::size_t i = 0; i < found.size(); ++i) {
      CHECK(found[i] == Approx(shown.score(0, i)).epsilon(1e-6).margin(1e-6));
    }
  };
  check("triattention:normalize=no");
  shown.whole = true;
  check("triattention:normalize=no,norms=whole");
  shown.reach = 100;
  check("triattention:normalize=no,norms=whole,reach=100");
  shown.maximum = true;
  check("triattention:normalize=no,norms=whole,reach=100,offsets=max");
}

TEST_CASE("triattention joins query heads after each has mean 0 and deviation 1", "[policies]") {
  const Definition shown = example(2, false);
  const std::size_t n = shown.keys.size();
  std::vector<std::vector<double>> heads(2);
  for (std::size_t head = 0; head < 2; ++head) {
    for (std::size_t i = 0; i < n; ++i) heads[head].push_back(shown.score(head, i));
    double mean = 0;
    for (const double score : heads[head]) mean += score / static_cast<double>(n);
    double square = 0;
    for (const double score : heads[head]) square += (score - mean) * (score - mean);
    for (double& score : heads[head]) {
      score = (score - mean) / std::sqrt(square / static_cast<double>(n));
    }
  }
  const std::vector<double> largest = scores_of("triattention", shown);
  const std::vector<double> means = scores_of("triattention:heads=mean", shown);
  for (std::size_t i = 0; i < n; ++i) {
    CHECK(largest[i] == Approx(std::max(heads[0][i], heads[1][i])).epsilon(1e-6).margin(1e-6));
    CHECK(means[i] == Approx((heads[0][i] + heads[1][i]) / 2).epsilon(1e-6).margin(1e-6));
  }
}

TEST_CASE("triattention scores a cache that tokens left as one that it sees first", "[policies]") {
  const Definition shown = example(2, false);
  const int n = static_cast<int>(shown.keys.size());
  const std::vector<float> keys = joined(shown.keys);
  Context context{.budget = 5};
  context.rotation = Rotation{.inverse_frequency = kFrequencies};
  for (const char* spec : {"triattention", "triattention:offsets=max"}) {
    const auto policy = Spec(spec).make(context);
    std::vector<std::vector<std::int32_t>> caches;
    const auto update = [&](Policy& updated, int t, int overflow) {
      const auto row = static_cast<std::size_t>(t);
      const std::vector<std::span<const float>> queries(shown.queries[row].begin(),
                                                        shown.queries[row].end());
      std::vector<double> scores(caches[row].size(), 0);
      updated.update({.index = t,
                      .tokens = caches[row],
                      .keys = {keys.data(), kDim, caches[row]},
                      .queries = queries,
                      .kinds = {},
                      .overflow = overflow},
                     scores);
      return scores;
    };
    std::vector<std::int32_t> tokens;
    for (int t = 0; t < n; ++t) {
      tokens.push_back(t);
      if (t > 12) tokens.erase(tokens.begin() + t % 7, tokens.begin() + t % 7 + 1 + t % 2);
      caches.push_back(tokens);
      const std::vector<double> followed = update(*policy, t, t % 5 == 0 ? 0 : 1);
      if (t % 5 == 0) continue;
      const auto fresh = Spec(spec).make(context);
      for (int before = 0; before < t; ++before) update(*fresh, before, 0);
      CHECK(followed == update(*fresh, t, 1));
    }
  }
}

}  // namespace kvsim::triattention_test
