#include "sim/results/paired_bootstrap.h"

#include <catch2/catch.hpp>
#include <map>
#include <random>

#include "sim/base/random_bits.h"

namespace kvsim::paired_bootstrap_test {

// Written from the definition: one number per sample, draw after draw.
std::vector<double> sample_values(const std::vector<std::size_t>& sequences,
                                  const std::vector<double>& values) {
  std::map<std::size_t, std::vector<double>> of_sequence;
  for (std::size_t i = 0; i < values.size(); ++i) of_sequence[sequences[i]].push_back(values[i]);
  if (of_sequence.size() < 5) return values;
  std::vector<double> means;
  for (const auto& [sequence, of_units] : of_sequence) {
    double sum = 0;
    for (const double value : of_units) sum += value;
    means.push_back(sum / static_cast<double>(of_units.size()));
  }
  return means;
}

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

std::vector<double> resampled(const std::vector<double>& samples, int draw) {
  std::vector<double> drawn;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const double fraction =
        static_cast<double>(random_bits(random_bits(0, draw), i) >> 32) / 4294967296.0;
    drawn.push_back(samples[static_cast<std::size_t>(fraction * samples.size())]);
  }
  return drawn;
}

double percentile_of(std::vector<double> values, double rank) {
  std::sort(values.begin(), values.end());
  const double position = rank * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const double share = position - static_cast<double>(below);
  return (1 - share) * values[below] + share * values[below + 1];
}

std::vector<double> normal_values(std::size_t count, std::uint64_t seed, double mean = 0) {
  std::mt19937_64 generator(seed);
  std::normal_distribution<double> normal(mean);
  std::vector<double> values(count);
  for (double& value : values) value = normal(generator);
  return values;
}

std::vector<std::size_t> all_of_sequence(std::size_t count) {
  return std::vector<std::size_t>(count, 0);
}

const std::vector<std::size_t> kSevenUneven = {0, 0, 0, 1, 1, 2, 3, 4, 4, 5, 6, 6, 6};

TEST_CASE("the paired bootstrap is that of its definition", "[bootstrap]") {
  const auto sequences = GENERATE(all_of_sequence(13), kSevenUneven);
  const std::vector<double> values = normal_values(13, 1, 0.5);
  const std::vector<double> others = normal_values(13, 2, 9);
  const std::vector<double> samples = sample_values(sequences, values);
  const std::vector<double> divisors = sample_values(sequences, others);
  std::vector<double> means;
  std::vector<double> ratios;
  for (int draw = 0; draw < 2000; ++draw) {
    means.push_back(mean_of(resampled(samples, draw)));
    ratios.push_back(means.back() / mean_of(resampled(divisors, draw)));
  }
  const PairedBootstrap bootstrap(sequences);
  CHECK(bootstrap.num_samples() == samples.size());
  CHECK(bootstrap.samples_sequences() == (samples.size() == 7));
  const Estimate mean = bootstrap.mean(values);
  CHECK(mean.value == Approx(mean_of(samples)));
  REQUIRE(mean.interval);
  CHECK(mean.interval->low == Approx(percentile_of(means, 0.025)));
  CHECK(mean.interval->high == Approx(percentile_of(means, 0.975)));
  const auto ratio = bootstrap.ratio(values, others);
  REQUIRE((ratio && ratio->interval));
  CHECK(ratio->value == Approx(mean_of(samples) / mean_of(divisors)));
  CHECK(ratio->interval->low == Approx(percentile_of(ratios, 0.025)));
  CHECK(ratio->interval->high == Approx(percentile_of(ratios, 0.975)));
}

TEST_CASE("sequences are the samples from five on", "[bootstrap]") {
  const PairedBootstrap four({0, 0, 1, 1, 2, 2, 3, 3});
  CHECK_FALSE(four.samples_sequences());
  CHECK(four.num_samples() == 8);
  const PairedBootstrap five({0, 0, 1, 1, 2, 2, 3, 3, 4, 4});
  CHECK(five.samples_sequences());
  CHECK(five.num_samples() == 5);
}

TEST_CASE("negated values have the negated interval, to the last bit", "[bootstrap]") {
  const PairedBootstrap bootstrap(kSevenUneven);
  const std::vector<double> values = normal_values(13, 3);
  std::vector<double> negated = values;
  for (double& value : negated) value = -value;
  const Estimate forth = bootstrap.mean(values);
  const Estimate back = bootstrap.mean(negated);
  CHECK(back.value == -forth.value);
  CHECK(back.interval->low == -forth.interval->high);
  CHECK(back.interval->high == -forth.interval->low);
}

TEST_CASE("values of zero have the interval [0, 0]", "[bootstrap]") {
  const Estimate none = PairedBootstrap(all_of_sequence(8)).mean(std::vector<double>(8));
  CHECK(none.value == 0);
  CHECK((none.interval->low == 0 && none.interval->high == 0));
}

TEST_CASE("a single sample has no interval", "[bootstrap]") {
  const PairedBootstrap bootstrap(all_of_sequence(1));
  const std::vector<double> one = {0.25};
  CHECK(bootstrap.mean(one).value == 0.25);
  CHECK_FALSE(bootstrap.mean(one).interval);
  CHECK_FALSE(bootstrap.ratio(one, one)->interval);
}

TEST_CASE("a ratio needs denominators above zero in every draw", "[bootstrap]") {
  const PairedBootstrap bootstrap(all_of_sequence(3));
  const std::vector<double> values = {1, 2, 3};
  CHECK_FALSE(bootstrap.ratio(values, std::vector<double>{0, 0, 0}));
  const auto sometimes = bootstrap.ratio(values, std::vector<double>{0, 0, 3});
  REQUIRE(sometimes);
  CHECK(sometimes->value == Approx(2));
  CHECK_FALSE(sometimes->interval);
  CHECK(bootstrap.ratio(values, values)->interval->low == 1);
}

TEST_CASE("the draws are pinned: the same on every machine", "[bootstrap]") {
  const Estimate pinned =
      PairedBootstrap(all_of_sequence(8)).mean(std::vector<double>{1, 2, 3, 4, 5, 6, 7, 8});
  CHECK(pinned.interval->low == 2.875);
  CHECK(pinned.interval->high == 6.0);
  const Estimate seeded =
      PairedBootstrap(all_of_sequence(8), 1).mean(std::vector<double>{1, 2, 3, 4, 5, 6, 7, 8});
  CHECK((seeded.interval->low != pinned.interval->low ||
         seeded.interval->high != pinned.interval->high));
}

// Of 200 planted means, the share that a 95% interval holds. The binomial deviation is 1.5%.
double coverage(std::size_t samples) {
  const PairedBootstrap bootstrap(all_of_sequence(samples));
  int held = 0;
  for (int trial = 0; trial < 200; ++trial) {
    held += bootstrap.mean(normal_values(samples, 100 + trial, 0.3)).interval->contains(0.3);
  }
  return held / 200.0;
}

TEST_CASE("intervals hold the planted mean as often as they say, if samples are many",
          "[bootstrap]") {
  CHECK(coverage(64) == Approx(0.95).margin(0.04));
  CHECK(coverage(5) > 0.7);
  CHECK(coverage(5) < coverage(64));
}

}  // namespace kvsim::paired_bootstrap_test
