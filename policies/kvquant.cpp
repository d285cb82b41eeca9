// Keys before rotation and per channel, values per token, at levels that k-means finds, with
// outliers kept as recorded (KVQuant: Hooper et al., NeurIPS 2024, sections 3.1 to 3.5;
// quant/kvquant/simquant_module_quantizer.py of the authors' program: quant_fn_nuq_recon,
// get_outliers, get_outliers_dynamic).
//
// Ranges of channels and levels are found once, from the tokens of the prompt, or in stream mode
// from the first ones of the text; the range of a value is its own.

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "policies/interface/policy_info.h"
#include "policies/interface/store_combinator.h"
#include "policies/parts/half.h"
#include "policies/parts/mean_rotation.h"
#include "policies/parts/min_max_codes.h"
#include "policies/parts/nonuniform_levels.h"

namespace kvsim {
namespace {

struct KvquantSettings {
  int bits = 3;
  double outliers = 0.01;
  int sinks = 1;
  int calibration = 32;
};

constexpr std::size_t kIndexBytes = 2;  // the channel of an outlier
constexpr std::size_t kStartBytes = 4;  // where the outliers of a vector begin

struct Range {
  float lower = 0;
  float upper = 0;
  float offset() const { return (upper + lower) / 2; }
  float half() const { return (upper - lower) / 2; }
};

/// The range that leaves out a share of the numbers, half of it at each end.
Range range_of(std::vector<float> numbers, double outliers) {
  std::sort(numbers.begin(), numbers.end());
  return {quantile(numbers, outliers / 2), quantile(numbers, 1 - outliers / 2)};
}

/// x as a level of its range.
float restored(float x, const Range& range, std::span<const float> levels) {
  if (range.half() == 0) return range.offset();
  return nearest_level(levels, (x - range.offset()) / range.half()) * range.half() + range.offset();
}

class KvquantStore final : public Store {
 public:
  KvquantStore(const StoreContext& context, const KvquantSettings& settings)
      : Store(context), settings_(settings), rotation_(context.rotation) {}

  void settle(const StoredStep& step) override {
    if (step.is_whole) {
      has_prompt_ = true;
    } else {
      const bool is_enough = (has_prompt_ || step.index + 1 >= settings_.calibration) &&
                             step.index + 1 > settings_.sinks;
      if (key_levels_.empty() && is_enough) calibrate(step.index + 1);
      if (!key_levels_.empty()) quantise_all(step);
    }
    count_bytes(step.held);
  }

  std::size_t bytes() const override { return bytes_; }

 private:
  std::vector<float> plain_key(std::int32_t token) const { return turned(key_row(token), -token); }

  std::vector<float> turned(std::span<const float> key, int position) const {
    std::vector<double> numbers(key.begin(), key.end());
    const auto& [frequencies, interleaved, factor] = *rotation_;
    MeanRotation(frequencies, interleaved, position).apply(numbers);
    return {numbers.begin(), numbers.end()};
  }

  float stored(float x) const { return shape().key_bytes == 2 ? round_to_half(x) : x; }

  bool is_sink(std::int32_t token) const { return token < settings_.sinks; }

  // From the tokens before `end`, held or not.
  void calibrate(std::int32_t end) {
    std::vector<std::vector<float>> keys;
    for (std::int32_t token = 0; token < end; ++token) keys.push_back(plain_key(token));
    std::vector<float> key_numbers, value_numbers;
    for (std::size_t c = 0; c < static_cast<std::size_t>(shape().head_dim); ++c) {
      std::vector<float> channel;
      for (const std::vector<float>& key : keys) channel.push_back(key[c]);
      Range range = range_of(channel, settings_.outliers);
      channel.erase(channel.begin(), channel.begin() + std::min(end, settings_.sinks));
      add_scaled(channel, range, key_numbers);
      range.lower = stored(range.lower);
      range.upper = stored(range.upper);
      ranges_.push_back(range);
    }
    for (std::int32_t token = std::min(end, settings_.sinks); token < end; ++token) {
      const std::span<const float> value = value_row(token);
      const std::vector<float> numbers(value.begin(), value.end());
      add_scaled(numbers, range_of(numbers, settings_.outliers), value_numbers);
    }
    const std::size_t count = std::size_t{1} << settings_.bits;
    key_levels_ = kmeans_levels(std::move(key_numbers), count);
    value_levels_ = kmeans_levels(std::move(value_numbers), count);
  }

  // Those within the range, which becomes [-1, 1].
  static void add_scaled(std::span<const float> numbers, const Range& range,
                         std::vector<float>& all) {
    if (range.half() == 0) return;
    for (const float x : numbers) {
      const float scaled = (x - range.offset()) / range.half();
      if (std::fabs(scaled) <= 1) all.push_back(scaled);
    }
  }

  void quantise_all(const StoredStep& step) {
    outliers_.resize(static_cast<std::size_t>(step.index) + 1);
    const auto first = std::lower_bound(step.held.begin(), step.held.end(), end_);
    for (auto token = first; token != step.held.end(); ++token) {
      if (is_sink(*token)) continue;
      outliers_[static_cast<std::size_t>(*token)] = {quantise_key(*token), quantise_value(*token)};
    }
    end_ = step.index + 1;
  }

  // Returns the number of outliers.
  std::size_t quantise_key(std::int32_t token) {
    std::vector<float> key = plain_key(token);
    std::size_t num_outliers = 0;
    for (std::size_t c = 0; c < key.size(); ++c) {
      const Range& range = ranges_[c];
      const bool is_outlier =
          settings_.outliers > 0 && (key[c] < range.lower || key[c] > range.upper);
      num_outliers += is_outlier;
      key[c] = is_outlier ? stored(key[c]) : restored(key[c], range, key_levels_);
    }
    const std::vector<float> rotated = turned(key, token);
    std::copy(rotated.begin(), rotated.end(), key_row(token).begin());
    return num_outliers;
  }

  std::size_t quantise_value(std::int32_t token) {
    const std::span<float> value = value_row(token);
    std::vector<float> sorted(value.begin(), value.end());
    std::sort(sorted.begin(), sorted.end());
    const Range kept = range_of(sorted, settings_.outliers);
    const float median = sorted[(sorted.size() - 1) / 2];
    const auto is_outlier = [&](float x) {
      return settings_.outliers > 0 && (x <= kept.lower || x >= kept.upper);
    };
    // In place of the outliers the median widens no range.
    Range range{median, median};
    if (!std::any_of(value.begin(), value.end(), is_outlier)) range = {value[0], value[0]};
    for (const float x : value) {
      if (is_outlier(x)) continue;
      range = {std::min(range.lower, x), std::max(range.upper, x)};
    }
    for (float& x : value) {
      if (!is_outlier(x)) x = restored(x, range, value_levels_);
    }
    return static_cast<std::size_t>(std::count_if(sorted.begin(), sorted.end(), is_outlier));
  }

  void count_bytes(std::span<const std::int32_t> held) {
    const auto dim = static_cast<std::size_t>(shape().head_dim);
    const auto value_dim = static_cast<std::size_t>(shape().value_dim);
    const auto key_bytes = static_cast<std::size_t>(shape().key_bytes);
    const auto value_bytes = static_cast<std::size_t>(shape().value_bytes);
    const std::size_t starts = settings_.outliers > 0 ? 2 * kStartBytes : 0;
    const std::size_t dense = bytes_of_codes(dim, settings_.bits) +
                              bytes_of_codes(value_dim, settings_.bits) + 2 * value_bytes + starts;
    bytes_ =
        (2 * ranges_.size() + key_levels_.size()) * key_bytes + value_levels_.size() * value_bytes;
    for (const std::int32_t token : held) {
      if (is_sink(token) || token >= end_) {
        bytes_ += shape().bytes();
        continue;
      }
      const auto& [of_key, of_value] = outliers_[static_cast<std::size_t>(token)];
      bytes_ += dense + of_key * (key_bytes + kIndexBytes) + of_value * (value_bytes + kIndexBytes);
    }
  }

  struct NumOutliers {
    std::size_t of_key = 0;
    std::size_t of_value = 0;
  };

  KvquantSettings settings_;
  std::optional<Rotation> rotation_;
  bool has_prompt_ = false;
  std::vector<Range> ranges_;  // of the channels of keys
  std::vector<float> key_levels_, value_levels_;
  std::int32_t end_ = 0;               // tokens before it are quantised
  std::vector<NumOutliers> outliers_;  // per token before end_
  std::size_t bytes_ = 0;
};

class Kvquant final : public StoreKind {
 public:
  explicit Kvquant(const KvquantSettings& settings) : settings_(settings) {}

  std::unique_ptr<Store> make(const StoreContext& context) const override {
    return std::make_unique<KvquantStore>(context, settings_);
  }

  std::size_t bytes(const VectorShape& shape, int tokens, int) const override {
    const auto sinks = static_cast<std::size_t>(std::min(tokens, settings_.sinks));
    const auto old = static_cast<std::size_t>(tokens) - sinks;
    const auto dim = static_cast<std::size_t>(shape.head_dim);
    const auto value_dim = static_cast<std::size_t>(shape.value_dim);
    const auto key_bytes = static_cast<std::size_t>(shape.key_bytes);
    const auto value_bytes = static_cast<std::size_t>(shape.value_bytes);
    const bool has_outliers = settings_.outliers > 0;
    const auto of_keys =
        static_cast<std::size_t>(std::ceil(settings_.outliers * static_cast<double>(old * dim)));
    // A value's least and largest number are outliers, however small the share.
    const auto at_an_end =
        static_cast<std::size_t>(settings_.outliers / 2 * static_cast<double>(value_dim - 1) + 1);
    const std::size_t of_value = has_outliers ? std::min(value_dim, 2 * at_an_end) : 0;
    const std::size_t starts = has_outliers ? 2 * kStartBytes : 0;
    const std::size_t levels = std::size_t{1} << settings_.bits;
    const std::size_t quantised =
        sinks * shape.bytes() +
        old * (bytes_of_codes(dim, settings_.bits) + bytes_of_codes(value_dim, settings_.bits) +
               2 * value_bytes + starts) +
        of_keys * (key_bytes + kIndexBytes) + old * of_value * (value_bytes + kIndexBytes) +
        (2 * dim + levels) * key_bytes + levels * value_bytes;
    // Until levels are found all tokens are as recorded.
    const int before = std::min(tokens, settings_.calibration - 1);
    return std::max(quantised, static_cast<std::size_t>(before) * shape.bytes());
  }

 private:
  KvquantSettings settings_;
};

void store_as_kvquant(Rules& rules, const Params& params, const Context&) {
  rules.sees_rotation = true;
  rules.store =
      std::make_shared<Kvquant>(KvquantSettings{.bits = params.integer("bits"),
                                                .outliers = params.real("outliers"),
                                                .sinks = params.integer("sinks"),
                                                .calibration = params.integer("calibration")});
}

std::string why_not_kvquant(const PolicyInfo& policy, const Rules& rules, const Params& params) {
  if (params.integer("calibration") <= params.integer("sinks")) {
    return "calibration must be above sinks, of which no levels are found";
  }
  return why_not_stored(policy, rules);
}

}  // namespace

CombinatorInfo kvquant_combinator() {
  return {
      .name = "kvquant",
      .does =
          "keys before rotation per channel, values per token, at levels of a few bits, "
          "outliers as recorded",
      .source = "Hooper et al., NeurIPS 2024 (KVQuant), sections 3.1 to 3.5",
      .differences =
          "levels are those of k-means without weights (the paper's are weighted by Fisher "
          "information) over the prompt or the first tokens of the text, of one KV head (the "
          "paper's over calibration texts, of a layer); a value's range and outliers are of one "
          "head (of all heads of the layer). Q-Norm is left out",
      .params = {Param::integer("bits", 3, 1, 8, "bits per number: 2^bits levels"),
                 Param::real("outliers", 0.01, 0, 0.5,
                             "share of the numbers that are kept as recorded"),
                 Param::integer("sinks", 1, 0, 1'000'000, "first tokens kept as recorded"),
                 Param::integer("calibration", 32, 1, 1'000'000,
                                "in stream mode, first tokens from which ranges and levels are "
                                "found; until then all are as recorded")},
      .change = store_as_kvquant,
      .why_not = why_not_kvquant};
}

}  // namespace kvsim
