#include "oracle/loss_bounds.h"

#include <algorithm>

#include "sim/base/float_lanes.h"
#include "sim/base/vector_targets.h"

namespace kvsim {
namespace {

constexpr int kBlock = 32;  // steps
static_assert(kBlock <= AttentionColumns::kPadding);
constexpr std::size_t kSlotsAtOnce = 64;
constexpr int kMostFinds = 16;  // with the same sums

// How far a sum in single precision may be from the exact one: the share of slopes and of sums in a
// block, and that of each block. total_loss() may be off by some roundings in double precision per
// step.
constexpr double kRounding = 1e-5;
constexpr double kRoundingOfBlock = 1.2e-7;
constexpr double kRoundingOfStep = 1e-15;

// Where h is the square root and less than this is kept, what is kept is mostly the rounding of
// what came and left.
constexpr double kLeastKept = 1e-11;
constexpr float kNoShare = 1e30F;

template <class Target>
using Floats = typename Vectors<Target>::Floats;

template <class Target, class Combine>
KVSIM_INLINE float combined(const Floats<Target>& vector, const Combine& combine) {
  float lanes[kFloats<Target>];
  store(vector, lanes);
  for (int width = kFloats<Target> / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) lanes[i] = combine(lanes[i], lanes[i + width]);
  }
  return lanes[0];
}

template <class Target>
KVSIM_INLINE void sum_products(const float* x, const float* y, int blocks, float* sums,
                               std::size_t stride) {
  for (int block = 0; block < blocks; ++block) {
    Floats<Target> sum = {};
    for (int i = 0; i < kBlock; i += kFloats<Target>) {
      Floats<Target> a;
      Floats<Target> b;
      load(a, x + block * kBlock + i);
      load(b, y + block * kBlock + i);
      sum += a * b;
    }
    sums[static_cast<std::size_t>(block) * stride] =
        combined<Target>(sum, [](float p, float q) { return p + q; });
  }
}
KVSIM_KERNEL(void, sum_products,
             (const float* x, const float* y, int blocks, float* sums, std::size_t stride),
             (x, y, blocks, sums, stride))

template <class Target>
KVSIM_INLINE void least_products(const float* x, const float* y, int blocks, float* least) {
  for (int block = 0; block < blocks; ++block) {
    Floats<Target> low = Floats<Target>{} + kNoShare;
    for (int i = 0; i < kBlock; i += kFloats<Target>) {
      Floats<Target> a;
      Floats<Target> b;
      load(a, x + block * kBlock + i);
      load(b, y + block * kBlock + i);
      const Floats<Target> product = a * b;
      low = product < low ? product : low;
    }
    least[block] = combined<Target>(low, [](float p, float q) { return std::min(p, q); });
  }
}
KVSIM_KERNEL(void, least_products, (const float* x, const float* y, int blocks, float* least),
             (x, y, blocks, least))

template <class Target>
KVSIM_INLINE void weigh(const float* sums, const float* shares, int blocks, std::size_t slots,
                        float* found) {
  constexpr std::size_t kVectors = kSlotsAtOnce / kFloats<Target>;
  for (std::size_t slot = 0; slot < slots; slot += kSlotsAtOnce) {
    Floats<Target> total[kVectors] = {};
    for (int block = 0; block < blocks; ++block) {
      const float* row = sums + static_cast<std::size_t>(block) * slots + slot;
      for (std::size_t k = 0; k < kVectors; ++k) {
        Floats<Target> sum;
        load(sum, row + k * kFloats<Target>);
        total[k] += shares[block] * sum;
      }
    }
    for (std::size_t k = 0; k < kVectors; ++k) {
      store(total[k], found + slot + k * kFloats<Target>);
    }
  }
}
KVSIM_KERNEL(void, weigh,
             (const float* sums, const float* shares, int blocks, std::size_t slots, float* found),
             (sums, shares, blocks, slots, found))

}  // namespace

LossBounds::LossBounds(Concave h, const AttentionColumns& columns, const std::vector<double>& kept,
                       const std::vector<double>& prepared)
    : h_(h),
      columns_(columns),
      kept_(kept),
      prepared_(prepared),
      num_blocks_((columns.num_tokens() + kBlock - 1) / kBlock),
      slopes_(static_cast<std::size_t>(num_blocks_) * kBlock, 0),
      slopes_summed_(slopes_.size(), 0),
      inverse_slopes_(slopes_.size(), 0),
      shares_(static_cast<std::size_t>(num_blocks_), 0),
      slot_of_(static_cast<std::size_t>(columns.num_tokens()), 0) {}

void LossBounds::add(int token) {
  if (free_.empty()) {
    const std::size_t before = tokens_.size();
    const std::size_t slots = std::max(kSlotsAtOnce, 2 * before);
    tokens_.resize(slots, kNobody);
    found_.resize(slots);
    bounds_.resize(slots, kNever);
    for (std::size_t slot = slots; slot-- > before;) free_.push_back(slot);
    sums_.assign(static_cast<std::size_t>(num_blocks_) * slots, 0);
    finds_ = kMostFinds;
  }
  const std::size_t slot = free_.back();
  free_.pop_back();
  tokens_[slot] = token;
  slot_of_[static_cast<std::size_t>(token)] = slot;
  unsummed_.push_back(slot);
}

void LossBounds::remove(int token) {
  const std::size_t slot = slot_of_[static_cast<std::size_t>(token)];
  tokens_[slot] = kNobody;
  bounds_[slot] = kNever;
  free_.push_back(slot);
}

void LossBounds::find(int step) {
  const int first = step / kBlock + 1;
  find_slopes(step);
  if (finds_ >= kMostFinds) {
    finds_ = 0;
    slopes_summed_ = slopes_;
    for (std::size_t i = 0; i < slopes_.size(); ++i) {
      inverse_slopes_[i] = slopes_[i] > 0 ? 1 / slopes_[i] : kNoShare;
    }
    for (std::size_t slot = 0; slot < tokens_.size(); ++slot) sum_blocks(slot, first);
  } else {
    for (const std::size_t slot : unsummed_) sum_blocks(slot, first);
  }
  unsummed_.clear();
  ++finds_;
  if (first < num_blocks_) {
    best_least_products(slopes_.data() + first * kBlock, inverse_slopes_.data() + first * kBlock,
                        num_blocks_ - first, shares_.data() + first);
  }
  best_weigh(sums_.data() + static_cast<std::size_t>(first) * tokens_.size(),
             shares_.data() + first, num_blocks_ - first, tokens_.size(), found_.data());
  const int near_end = std::min(first * kBlock, columns_.num_tokens());
  const double share = 1 - kRounding - kRoundingOfBlock * num_blocks_;
  const double rounding = kRoundingOfStep * columns_.num_tokens();
  for (std::size_t slot = 0; slot < tokens_.size(); ++slot) {
    if (tokens_[slot] == kNobody) continue;
    const float* column = columns_.from(tokens_[slot], step + 1);
    float near = 0;
    for (int i = step + 1; i < near_end; ++i) near += column[i - step - 1] * slopes_[i];
    const double bound = (double{found_[slot]} + near) * share - rounding;
    bounds_[slot] = step == last_step_ ? std::max(bounds_[slot], bound) : bound;
  }
  last_step_ = step;
}

int LossBounds::lowest() const {
  return tokens_[static_cast<std::size_t>(std::min_element(bounds_.begin(), bounds_.end()) -
                                          bounds_.begin())];
}

void LossBounds::find_slopes(int step) {
  for (int s = step + 1; s < columns_.num_tokens(); ++s) {
    const auto i = static_cast<std::size_t>(s);
    switch (h_) {
      case Concave::identity:
        slopes_[i] = 1;
        break;
      case Concave::sqrt:
        slopes_[i] = kept_[i] < kLeastKept ? 0 : static_cast<float>(0.5 / prepared_[i]);
        break;
      case Concave::log1p:
        slopes_[i] = static_cast<float>(prepared_[i]);
        break;
    }
  }
}

void LossBounds::sum_blocks(std::size_t slot, int first_block) {
  if (tokens_[slot] == kNobody || first_block >= num_blocks_) return;
  const int step = first_block * kBlock;
  best_sum_products(
      columns_.from(tokens_[slot], step), slopes_summed_.data() + step, num_blocks_ - first_block,
      sums_.data() + static_cast<std::size_t>(first_block) * tokens_.size() + slot, tokens_.size());
}

}  // namespace kvsim
