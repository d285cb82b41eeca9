#include "analysis/fits/power_law_fit.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "analysis/fits/radix_sort.h"
#include "sim/base/interrupt.h"
#include "traces/synth/random_stream.h"

namespace kvsim {
namespace {

constexpr std::size_t kLeastDistinct = 10;
constexpr std::size_t kLeastTail = 50;  // of at least 100 values; shorter ones bias the exponent
constexpr std::size_t kMostStarts = 500;

// The fit works on the logarithms of the values: they turn a power law into an exponential law, and
// cannot overflow.

struct Tail {
  std::size_t begin;
  double rate;  // exponent - 1
  double distance;
};

/// spread[i] is the sum of logs[j] - logs[i] over j >= i, computed from the end to avoid
/// cancellation.
std::vector<double> spreads(const std::vector<double>& logs) {
  std::vector<double> spread(logs.size());
  for (std::size_t i = logs.size() - 1; i-- > 0;) {
    const auto above = static_cast<double>(logs.size() - 1 - i);
    spread[i] = spread[i + 1] + above * (logs[i + 1] - logs[i]);
  }
  return spread;
}

/// The candidates for the beginning of the tail: not within equal values, and before the largest.
std::vector<std::size_t> starts(const std::vector<double>& logs,
                                const std::vector<double>& spread) {
  const std::size_t least_tail = std::clamp(logs.size() / 2, kLeastDistinct, kLeastTail);
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i + least_tail <= logs.size() && spread[i] > 0; ++i) {
    if (i == 0 || logs[i] > logs[i - 1]) found.push_back(i);
  }
  if (found.size() <= kMostStarts) return found;
  for (std::size_t i = 0; i < kMostStarts; ++i) {
    found[i] = found[i * (found.size() - 1) / (kMostStarts - 1)];
  }
  found.resize(kMostStarts);
  return found;
}

/// The tail with the least distance to its maximum-likelihood power law; nullopt if all values are
/// equal.
std::optional<Tail> nearest_tail(const std::vector<double>& logs) {
  const std::vector<double> spread = spreads(logs);
  std::vector<double> cumulative;
  std::optional<Tail> nearest;
  for (const std::size_t begin : starts(logs, spread)) {
    const double rate = static_cast<double>(logs.size() - begin) / spread[begin];
    poll_interrupt();
    cumulative.clear();
    for (std::size_t i = begin; i < logs.size(); ++i) {
      cumulative.push_back(1 - std::exp(-rate * (logs[i] - logs[begin])));
    }
    const double distance = kolmogorov_smirnov(cumulative);
    if (!nearest || distance < nearest->distance) nearest = {begin, rate, distance};
  }
  return nearest;
}

/// Whether a tail is farther than `limit` from its law, as kolmogorov_smirnov() would have it.
/// Looks first at a few values, as one that is too far says enough.
bool is_farther(const std::vector<double>& logs, std::size_t begin, double rate, double limit) {
  constexpr std::size_t kStride = 32;
  const auto count = static_cast<double>(logs.size() - begin);
  const auto is_far = [&](std::size_t i) {
    const double cumulative = 1 - std::exp(-rate * (logs[i] - logs[begin]));
    const double above = count * cumulative - static_cast<double>(i - begin);
    return std::max(above, 1 - above) / count > limit;
  };
  for (std::size_t i = begin; i < logs.size(); i += kStride) {
    if (is_far(i)) return true;
  }
  for (std::size_t i = begin; i < logs.size(); ++i) {
    if (is_far(i)) return true;
  }
  return false;
}

/// Whether nearest_tail() would find one that is farther than `limit`: all of them are.
bool nearest_is_farther(const std::vector<double>& logs, double limit) {
  const std::vector<double> spread = spreads(logs);
  const std::vector<std::size_t> begins = starts(logs, spread);
  return !begins.empty() && std::all_of(begins.begin(), begins.end(), [&](std::size_t begin) {
    poll_interrupt();
    const double rate = static_cast<double>(logs.size() - begin) / spread[begin];
    return is_farther(logs, begin, rate, limit);
  });
}

double p_value(const std::vector<double>& logs, const Tail& tail, const Bootstrap& bootstrap) {
  RandomStream random(bootstrap.seed, {});
  std::vector<double> synthetic(logs.size());
  int worse = 0;
  for (int sample = 0; sample < bootstrap.samples; ++sample) {
    poll_interrupt();
    for (double& log : synthetic) {
      const std::size_t pick = random.below(logs.size());
      log = pick < tail.begin ? logs[pick] : logs[tail.begin] + random.exponential(tail.rate);
    }
    sort_ascending(synthetic);
    // Equal values have no tail: a law of infinite exponent fits them perfectly.
    worse += nearest_is_farther(synthetic, tail.distance);
  }
  return worse / static_cast<double>(bootstrap.samples);
}

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

/// Vuong's test of the differences between the values' log-densities under two laws.
LikelihoodRatio compare(const std::vector<double>& differences) {
  const auto count = static_cast<double>(differences.size());
  const double centre = mean_of(differences);
  double squares = 0;
  for (const double difference : differences) squares += std::pow(difference - centre, 2);
  if (squares == 0) return {count * centre, 1};
  return {count * centre, std::erfc(count * std::abs(centre) / std::sqrt(2 * squares))};
}

/// `excess` is log(x / s) of the tail here and below, with the mean 1 / rate.
LikelihoodRatio over_exponential(const std::vector<double>& excess, double rate) {
  std::vector<double> beyond(excess);  // x / s - 1
  for (double& x : beyond) x = std::expm1(x);
  const double decay = 1 / mean_of(beyond);
  std::vector<double> differences;
  for (std::size_t i = 0; i < excess.size(); ++i) {
    differences.push_back(std::log(rate / decay) - (rate + 1) * excess[i] + decay * beyond[i]);
  }
  return compare(differences);
}

/// The distribution of z - cut for a standard normal z, given z >= cut.
struct NormalTail {
  double mean;
  double mean_square;
  double log_density;  // at 0
};

NormalTail normal_tail(double cut) {
  if (cut < 3) {
    const double log_density = -cut * cut / 2 - std::log(std::numbers::pi / 2) / 2 -
                               std::log(std::erfc(cut / std::numbers::sqrt2));
    const double mean = std::exp(log_density) - cut;
    return {mean, 1 - cut * mean, log_density};
  }
  // Laplace's continued fraction for the density: cut + 1 / (cut + 2 / (cut + 3 / ...)). From 3 on
  // these levels give full precision, and the difference above would lose digits.
  double rest = 0;
  for (int level = 60; level >= 2; --level) rest = level / (cut + rest);
  const double mean = 1 / (cut + rest);
  return {mean, rest * mean, std::log(cut + mean)};
}

/// The logarithms of a log-normal tail are a normal tail. Normal tails are an exponential family,
/// so the maximum-likelihood one has the sample's mean and mean square.
LikelihoodRatio over_log_normal(const std::vector<double>& excess, double rate) {
  std::vector<double> squares(excess);
  for (double& square : squares) square *= square;
  // Mean square over squared mean. For a normal tail it rises with the cut, up to 2, the value of
  // the exponential law.
  const double ratio = mean_of(squares) * rate * rate;
  const auto ratio_at = [](double cut) {
    const NormalTail tail = normal_tail(cut);
    return tail.mean_square / (tail.mean * tail.mean);
  };
  double low = -1e4;
  double high = 1e3;
  if (ratio >= ratio_at(high)) return {0, 1};  // the best log-normal is the power law itself
  for (int halving = 0; halving < 60; ++halving) {
    const double middle = low + (high - low) / 2;
    (ratio_at(middle) < ratio ? low : high) = middle;
  }
  const NormalTail tail = normal_tail(low);
  const double scale = tail.mean * rate;  // 1 / the normal law's deviation
  std::vector<double> differences;
  for (const double y : excess) {
    const double z = y * scale;
    differences.push_back(std::log(rate / scale) - rate * y - tail.log_density + low * z +
                          z * z / 2);
  }
  return compare(differences);
}

}  // namespace

std::optional<PowerLawFit> fit_power_law(std::span<const double> values,
                                         const Bootstrap& bootstrap) {
  const std::vector<double> sorted = sorted_for_fit(values);
  if (sorted.empty()) return std::nullopt;
  std::vector<double> logs(sorted);
  for (double& log : logs) log = std::log(log);
  const std::optional<Tail> tail = nearest_tail(logs);
  if (!tail) return std::nullopt;  // the values differ, but not their logarithms

  std::vector<double> excess(logs.begin() + static_cast<std::ptrdiff_t>(tail->begin), logs.end());
  for (double& log : excess) log -= logs[tail->begin];
  const auto size = static_cast<int>(excess.size());
  return PowerLawFit{.exponent = 1 + tail->rate,
                     .exponent_error = tail->rate / std::sqrt(size),
                     .smallest = sorted[tail->begin],
                     .tail = size,
                     .distance = tail->distance,
                     .p_value = p_value(logs, *tail, bootstrap),
                     .over_exponential = over_exponential(excess, tail->rate),
                     .over_log_normal = over_log_normal(excess, tail->rate)};
}

std::string verdict_of(const PowerLawFit& fit) {
  constexpr int kFewestInTail = 50;  // section 3.2: with fewer values the exponent is biased
  const auto is_better = [](const LikelihoodRatio& ratio) {
    return ratio.log_ratio < 0 && ratio.significance < PowerLawFit::kPlausible;
  };
  if (fit.p_value < PowerLawFit::kPlausible) return "rejected";
  if (is_better(fit.over_exponential)) return "exponential fits better";
  if (is_better(fit.over_log_normal)) return "log-normal fits better";
  return fit.tail < kFewestInTail ? "tail too short" : "plausible";
}

std::vector<double> sorted_for_fit(std::span<const double> values) {
  std::vector<double> sorted;
  for (const double value : values) {
    if (value > 0 && std::isfinite(value)) sorted.push_back(value);
  }
  std::sort(sorted.begin(), sorted.end());
  std::size_t distinct = sorted.empty() ? 0 : 1;
  for (std::size_t i = 1; i < sorted.size(); ++i) distinct += sorted[i] > sorted[i - 1];
  if (distinct < kLeastDistinct) sorted.clear();
  return sorted;
}

double kolmogorov_smirnov(std::span<const double> cumulative) {
  const auto count = static_cast<double>(cumulative.size());
  double distance = 0;
  // Equal values are one jump of the sample's distribution function, taken here as several smaller
  // ones; these lie between the ends of the jump and so do not change the maximum.
  for (std::size_t i = 0; i < cumulative.size(); ++i) {
    const double above = count * cumulative[i] - static_cast<double>(i);
    distance = std::max(distance, std::max(above, 1 - above));
  }
  return distance / count;
}

}  // namespace kvsim
