#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace kvsim {

/// The range of the values that the data allow, at 95% confidence.
struct Interval {
  double low = 0;
  double high = 0;

  bool contains(double value) const { return low <= value && value <= high; }
};

/// A statistic of paired values and its interval.
struct Estimate {
  double value = 0;
  std::optional<Interval> interval;  ///< none from a single sample
};

/// Of every unit, the index of its sequence, from its trace and sequence: 0, 1, ... in the order in
/// which sequences first appear.
std::vector<std::size_t> number_sequences(
    std::span<const std::pair<std::string, std::string>> of_units);

/// Estimates from one value per unit, such as the difference of two policies there, with percentile
/// intervals of the paired bootstrap (Efron and Tibshirani, An Introduction to the Bootstrap, 1993,
/// section 13.3): samples are drawn with replacement, as many as there are, and the statistic is
/// computed from their mean. A sample is a sequence with the mean over its units, or a unit where
/// there are fewer than five sequences.
///
/// An interval excludes 0 whenever the values of all samples have one sign, which n samples do by
/// chance in 2^(1-n) of all cases. So fewer than five samples support no verdict.
///
/// The draws are a function of the number of samples and the seed alone. So statistics of the same
/// units share them, and equal values give equal results on every machine.
class PairedBootstrap {
 public:
  static constexpr std::size_t kDraws = 2000;
  /// From as many on, sequences are the samples; and samples support a verdict.
  static constexpr std::size_t kFewestSamples = 5;

  /// `sequences`: as number_sequences() makes them.
  explicit PairedBootstrap(std::vector<std::size_t> sequences, std::uint64_t seed = 0);

  bool samples_sequences() const { return num_sequences_ >= kFewestSamples; }
  std::size_t num_samples() const;
  bool has_enough_samples() const { return num_samples() >= kFewestSamples; }

  /// [draw, sample]: the index of the sample that was drawn.
  std::span<const std::uint32_t> drawn() const { return drawn_; }

  /// The mean over samples. `values`: one per unit.
  Estimate mean(std::span<const double> values) const;

  /// The mean of `numerators` divided by that of `denominators`. Empty if the mean denominator is
  /// not positive; without an interval if that of a draw is not.
  std::optional<Estimate> ratio(std::span<const double> numerators,
                                std::span<const double> denominators) const;

 private:
  std::vector<double> of_samples(std::span<const double> of_units) const;
  std::vector<double> drawn_means(const std::vector<double>& samples) const;

  std::vector<std::size_t> sequences_;
  std::size_t num_sequences_ = 0;
  std::vector<std::uint32_t> drawn_;  // see drawn()
};

}  // namespace kvsim
