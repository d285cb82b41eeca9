#include "sim/results/paired_bootstrap.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

#include "sim/base/random_bits.h"
#include "sim/kernels/percentile.h"

namespace kvsim {
namespace {

constexpr double kOutside = 0.025;  // the share of draws on either side of an interval

// The upper end is found among the negated values, so that negating a statistic negates its
// interval to the last bit. Subtracting from 0 gives no -0.
Interval interval_of(std::vector<double> statistics) {
  const double low = select_percentile(statistics, kOutside);
  std::transform(statistics.begin(), statistics.end(), statistics.begin(), std::negate<>());
  return {low, 0 - select_percentile(statistics, kOutside)};
}

double mean_of_samples(const std::vector<double>& samples) {
  return std::accumulate(samples.begin(), samples.end(), 0.0) / static_cast<double>(samples.size());
}

}  // namespace

std::vector<std::size_t> number_sequences(
    std::span<const std::pair<std::string, std::string>> of_units) {
  std::map<std::pair<std::string, std::string>, std::size_t> numbers;
  std::vector<std::size_t> sequences;
  for (const auto& sequence : of_units) {
    sequences.push_back(numbers.try_emplace(sequence, numbers.size()).first->second);
  }
  return sequences;
}

PairedBootstrap::PairedBootstrap(std::vector<std::size_t> sequences, std::uint64_t seed)
    : sequences_(std::move(sequences)) {
  for (const std::size_t sequence : sequences_) {
    num_sequences_ = std::max(num_sequences_, sequence + 1);
  }
  const std::uint64_t samples = num_samples();
  drawn_.reserve(kDraws * samples);
  for (std::uint64_t draw = 0; draw < kDraws; ++draw) {
    const std::uint64_t of_draw = random_bits(seed, draw);
    for (std::uint64_t i = 0; i < samples; ++i) {
      // The upper half of the bits as a fraction of 2^32.
      const std::uint64_t fraction = random_bits(of_draw, i) >> 32;
      drawn_.push_back(static_cast<std::uint32_t>(fraction * samples >> 32));
    }
  }
}

std::size_t PairedBootstrap::num_samples() const {
  return samples_sequences() ? num_sequences_ : sequences_.size();
}

std::vector<double> PairedBootstrap::of_samples(std::span<const double> of_units) const {
  if (!samples_sequences()) return {of_units.begin(), of_units.end()};
  std::vector<double> sums(num_sequences_);
  std::vector<double> counts(num_sequences_);
  for (std::size_t unit = 0; unit < of_units.size(); ++unit) {
    sums[sequences_[unit]] += of_units[unit];
    counts[sequences_[unit]] += 1;
  }
  std::transform(sums.begin(), sums.end(), counts.begin(), sums.begin(), std::divides<>());
  return sums;
}

std::vector<double> PairedBootstrap::drawn_means(const std::vector<double>& samples) const {
  std::vector<double> means;
  means.reserve(kDraws);
  for (auto drawn = drawn_.begin(); drawn != drawn_.end();) {
    double sum = 0;
    for (std::size_t i = 0; i < samples.size(); ++i) sum += samples[*drawn++];
    means.push_back(sum / static_cast<double>(samples.size()));
  }
  return means;
}

Estimate PairedBootstrap::mean(std::span<const double> values) const {
  const std::vector<double> samples = of_samples(values);
  Estimate estimate{mean_of_samples(samples), std::nullopt};
  if (samples.size() > 1) estimate.interval = interval_of(drawn_means(samples));
  return estimate;
}

std::optional<Estimate> PairedBootstrap::ratio(std::span<const double> numerators,
                                               std::span<const double> denominators) const {
  const std::vector<double> above = of_samples(numerators);
  const std::vector<double> below = of_samples(denominators);
  if (!(mean_of_samples(below) > 0)) return std::nullopt;
  Estimate estimate{mean_of_samples(above) / mean_of_samples(below), std::nullopt};
  if (above.size() == 1) return estimate;
  std::vector<double> ratios = drawn_means(above);
  const std::vector<double> divisors = drawn_means(below);
  if (std::all_of(divisors.begin(), divisors.end(), [](double mean) { return mean > 0; })) {
    std::transform(ratios.begin(), ratios.end(), divisors.begin(), ratios.begin(),
                   std::divides<>());
    estimate.interval = interval_of(std::move(ratios));
  }
  return estimate;
}

}  // namespace kvsim
