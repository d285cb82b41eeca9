#include "sim/tiers/key_hashes.h"

#include <cmath>
#include <numbers>

#include "sim/base/interrupt.h"
#include "sim/base/random_bits.h"

namespace kvsim {
namespace {

/// A number of the normal distribution for each (seed, place), by Box and Muller (1958).
float normal_draw(std::uint64_t seed, std::uint64_t place) {
  const auto uniform = [&](std::uint64_t which) {
    return (static_cast<double>(random_bits(seed, 2 * place + which) >> 11) + 0.5) * 0x1p-53;
  };
  return static_cast<float>(std::sqrt(-2 * std::log(uniform(0))) *
                            std::cos(2 * std::numbers::pi * uniform(1)));
}

}  // namespace

KeyHashes::KeyHashes(const Matrix& keys, const Eigen::RowVectorXf& centre, int tables, int bits,
                     std::uint64_t seed)
    : tables_(static_cast<std::size_t>(tables)),
      bits_(bits),
      directions_(keys.cols(), Eigen::Index{tables} * bits) {
  for (Eigen::Index i = 0; i < directions_.size(); ++i) {
    directions_.data()[i] = normal_draw(seed, static_cast<std::uint64_t>(i));
  }
  for (Eigen::Index key = 0; key < keys.rows(); ++key) {
    poll_interrupt();
    const auto codes = codes_of(keys.row(key) - centre);
    codes_.insert(codes_.end(), codes.begin(), codes.end());
  }
}

std::vector<std::uint16_t> KeyHashes::codes_of(const Eigen::RowVectorXf& query) const {
  const Eigen::RowVectorXf product = query * directions_;
  return pack(product.data());
}

std::vector<std::uint16_t> KeyHashes::pack(const float* product) const {
  std::vector<std::uint16_t> codes(tables_);
  for (std::uint16_t& code : codes) {
    for (int bit = 0; bit < bits_; ++bit) {
      code = static_cast<std::uint16_t>(code << 1 | (*product++ > 0 ? 1 : 0));
    }
  }
  return codes;
}

int KeyHashes::num_equal(const std::vector<std::uint16_t>& query, int key) const {
  const std::uint16_t* codes = codes_.data() + static_cast<std::size_t>(key) * tables_;
  int count = 0;
  for (std::size_t table = 0; table < tables_; ++table) count += codes[table] == query[table];
  return count;
}

}  // namespace kvsim
