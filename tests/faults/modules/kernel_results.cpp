#include "tests/faults/inputs/kernel_results.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "sim/kernels/attention_kernels.h"
#include "sim/kernels/curve_kernels.h"
#include "sim/kernels/leave_one_out_kernels.h"
#include "sim/kernels/score_kernels.h"
#include "sim/kernels/value_kernels.h"

namespace kvsim::faults {
namespace {

class Numbers {
 public:
  Numbers(KernelNumber* numbers, std::size_t most) : numbers_(numbers), most_(most) {}

  void add(double value, double tolerance = 0) {
    if (count_ < most_) numbers_[count_++] = {value, tolerance};
  }
  template <class Values>
  void add_all(const Values& values, double tolerance = 0) {
    for (const auto value : values) add(static_cast<double>(value), tolerance);
  }
  std::size_t count() const { return count_; }

 private:
  KernelNumber* numbers_;
  std::size_t most_;
  std::size_t count_ = 0;
};

/// The input's bytes, and after them a stream that they seed.
class Source {
 public:
  Source(const std::uint8_t* input, std::size_t bytes) : input_(input), bytes_(bytes) {
    std::seed_seq seed(input, input + bytes);
    random_.seed(seed);
  }

  std::uint8_t byte() {
    return at_ < bytes_ ? input_[at_++] : static_cast<std::uint8_t>(random_() >> 8);
  }
  std::size_t size(std::size_t most) { return (byte() | std::size_t{byte()} << 8) % (most + 1); }

  /// Finite; ties, zeros, tiny and large ones among them.
  float number() {
    const std::uint8_t kind = byte();
    const float ordinary = (static_cast<float>(random_() >> 8) / (1 << 23) - 1) * 4;
    if (kind < 16) return 0;
    if (kind < 32) return static_cast<float>(kind - 24);
    if (kind < 36) return std::ldexp(ordinary, -40);
    if (kind < 40) return std::ldexp(ordinary, 10);
    return ordinary;
  }
  std::vector<float> numbers(std::size_t count) {
    std::vector<float> made(count);
    for (float& one : made) one = number();
    return made;
  }
  std::vector<float> weights(std::size_t count) {
    std::vector<float> made = numbers(count);
    for (float& one : made) one = std::abs(one);
    return made;
  }
  std::vector<std::int32_t> order(std::size_t count) {
    std::vector<std::int32_t> made(count);
    std::iota(made.begin(), made.end(), 0);
    std::shuffle(made.begin(), made.end(), random_);
    return made;
  }

 private:
  const std::uint8_t* input_;
  std::size_t bytes_;
  std::size_t at_ = 0;
  std::mt19937 random_;
};

// Products may be fused: within a rounding of every term, relative to the sum of their magnitudes.
double tolerance_of(double terms, double magnitude) {
  return terms * magnitude * std::numeric_limits<float>::epsilon() + 1e-30;
}

void logits(Source& source, Numbers& numbers) {
  const auto tokens = static_cast<Eigen::Index>(1 + source.size(70));
  const auto dim = static_cast<Eigen::Index>(1 + source.size(40));
  const auto steps = static_cast<int>(1 + source.size(kBlockSteps - 1));
  const std::vector<float> keys = source.numbers(tokens * dim);
  const std::vector<float> query = source.numbers(steps * dim);
  const KeyPanels panels(Eigen::Map<const Matrix>(keys.data(), tokens, dim), 0.25F);
  std::vector<float> logit(steps * tokens);
  panels.multiply(query.data(), steps, static_cast<int>(tokens), logit.data());
  for (int step = 0; step < steps; ++step) {
    for (Eigen::Index token = 0; token < tokens; ++token) {
      double magnitude = 0;
      for (Eigen::Index d = 0; d < dim; ++d) {
        magnitude += std::abs(double{query[step * dim + d]} * keys[token * dim + d]);
      }
      numbers.add(logit[step * tokens + token], tolerance_of(2.0 * dim, magnitude));
    }
  }
}

void exponentials_and_marks(Source& source, Numbers& numbers) {
  const std::vector<float> logit = source.numbers(1 + source.size(300));
  std::vector<float> weight(logit.size());
  float offset = -std::numeric_limits<float>::infinity();
  const double sum = exponentials(logit, weight.data(), offset);
  numbers.add(offset);
  numbers.add(sum, 6e-7 * sum);
  for (const float one : weight) numbers.add(one, 6e-7 * one + 1e-37);
  const std::vector<float> marked = source.weights(logit.size());
  std::vector<std::uint64_t> above((logit.size() + 63) / 64);
  numbers.add(mark_above(marked, source.number(), above.data()));
  for (const std::uint64_t word : above) {
    numbers.add(static_cast<double>(word >> 32));
    numbers.add(static_cast<double>(word & 0xffffffff));
  }
}

void scores(Source& source, Numbers& numbers) {
  const std::size_t count = 1 + source.size(200);
  const std::vector<float> weight = source.weights(count);
  std::vector<std::int32_t> tokens = source.order(count);
  std::vector<double> score(count);
  for (double& one : score) one = source.number();
  std::vector<float> mean(count);
  set_attention(weight, 0.125F, mean.data());
  add_attention(weight, 0.3F, mean.data());
  numbers.add_all(mean);
  using Kind = ScoreRule::Kind;
  constexpr Kind kKinds[] = {Kind::newest, Kind::attention, Kind::sum,
                             Kind::mean,   Kind::recency,   Kind::frequency,
                             Kind::random, Kind::columns,   Kind::blocks};
  ScoreRule rule{kKinds[source.byte() % std::size(kKinds)]};
  rule.seed = source.byte();
  rule.length = 1 + source.byte() % 9;
  rule.part = source.byte() % 4;
  const ScoredStep step{static_cast<std::int32_t>(count + source.size(9)), 1 + source.size(300)};
  const std::size_t begin = source.size(count);
  const std::size_t end = begin + source.size(count - begin);
  const LowestScore updated = update_scores(rule, step, {tokens, weight, 0.2F, score}, begin, end);
  const LowestScore found = lowest(score);
  numbers.add(updated.slot);
  numbers.add_all(score);
  numbers.add(found.slot);
  numbers.add(found.is_tied);
  const std::vector<float> gaps(count, 0);
  const LowestScore least = least_attention(weight, 0.2F, gaps, begin, end);
  numbers.add(least.slot);
  numbers.add(least.is_tied);
}

void curves(Source& source, Numbers& numbers) {
  const std::size_t count = 1 + source.size(200);
  const std::vector<float> row = source.weights(count);
  const std::vector<std::int32_t> order = source.order(count);
  std::vector<float> gathered(count);
  std::vector<double> attention(count, 0.5);
  std::vector<std::int32_t> above(count);
  add_in_order(row.data(), order, 0.375, source.number(), gathered.data(), attention.data(),
               above.data());
  numbers.add_all(gathered);
  numbers.add_all(attention);
  numbers.add_all(above);
  const std::vector<double> a(row.begin(), row.end());
  const std::vector<double> b(attention.begin(), attention.end());
  numbers.add(squared_distance(a.data(), 0.75, b.data(), count));
  numbers.add(skip_higher_scores(a.data(), source.number(), source.size(count), count));
}

void left_out(Source& source, Numbers& numbers) {
  const std::size_t count = padded_to_doubles(1 + source.size(60));
  const std::vector<float> made = source.numbers(3 * count);
  const std::vector<double> a(made.begin(), made.end());
  std::vector<double> product(3 * kPadding);
  const DoubleRows rows{a.data(), 3, count};
  multiply_rows(rows, rows, product.data(), kPadding);
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t j = 0; j < 3; ++j) numbers.add(product[i * kPadding + j]);
  }
  std::vector<double> sum(count);
  const std::vector<double> weight{0.5, -2, 0.125};
  sum_rows(rows, weight.data(), sum.data());
  add_scaled_doubles(0.3, a.data(), count, sum.data());
  add_linear_changes(a.data(), 0.7, a.data() + count, count, sum.data());
  numbers.add_all(sum);
  const std::vector<float> shares = source.weights(count);
  const std::vector<double> weights(shares.begin(), shares.end());
  const double total = std::accumulate(weights.begin(), weights.end(), 1e-3);
  numbers.add(set_moved_shares(total, weights.data(), count, sum.data()));
  numbers.add_all(sum);
}

void products(Source& source, Numbers& numbers) {
  const auto dims = static_cast<int>(1 + source.size(40));
  const std::size_t terms = source.size(150);
  const std::vector<float> weights = source.numbers(terms * kBlockSteps);
  const std::vector<float> numbers_of_value = source.numbers(terms * dims);
  AlignedRows weight(terms, kBlockSteps);
  std::copy(weights.begin(), weights.end(), weight.row(0));
  const Matrix value =
      Eigen::Map<const Matrix>(numbers_of_value.data(), static_cast<Eigen::Index>(terms), dims);
  const ValuePanels panels(value);
  const WeightedValues of{weight, panels};
  std::vector<std::int32_t> added(terms);
  std::iota(added.begin(), added.end(), 0);
  const std::vector<double> before(dims * kBlockSteps, 1);
  std::vector<double> sum(dims * kBlockSteps);
  const std::size_t split = terms / 3;
  const std::span<const std::int32_t> all(added);
  std::vector<float> common(dims * kBlockSteps);
  sum_products(of, all.first(split), 0, dims, common.data());
  const float* const shared = common.data();
  add_products(of, {.added = all.subspan(split), .removed_sums = {&shared, 1}}, 0, dims,
               before.data(), sum.data());
  for (int d = 0; d < dims; ++d) {
    for (int step = 0; step < kBlockSteps; ++step) {
      double magnitude = 1;
      for (const std::int32_t token : added) {
        magnitude += std::abs(double{weight.row(token)[step]} * value(token, d));
      }
      numbers.add(sum[d * kBlockSteps + step],
                  tolerance_of(2.0 * static_cast<double>(terms) + 2, magnitude));
    }
  }
}

}  // namespace
}  // namespace kvsim::faults

extern "C" __attribute__((visibility("default"))) std::size_t kernel_results(
    const std::uint8_t* input, std::size_t bytes, kvsim::faults::KernelNumber* numbers,
    std::size_t most) {
  using namespace kvsim::faults;
  constexpr void (*kChecks[])(Source&, Numbers&) = {
      logits, exponentials_and_marks, scores, curves, left_out, products};
  Source source(input, bytes);
  Numbers found(numbers, most);
  kChecks[source.byte() % std::size(kChecks)](source, found);
  return found.count();
}
