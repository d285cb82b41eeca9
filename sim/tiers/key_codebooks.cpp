#include "sim/tiers/key_codebooks.h"

#include <algorithm>
#include <limits>

#include "sim/base/interrupt.h"
#include "sim/base/random_bits.h"

namespace kvsim {
namespace {

using Rows = Eigen::Ref<const Matrix, 0, Eigen::OuterStride<>>;

/// The nearest centroid of each key; the lower of equally near ones. Half the squared distance, but
/// for the square of the key, is |c|² / 2 - <k, c>.
std::vector<std::uint16_t> codes_of(const Rows& keys, const Matrix& centroids) {
  const Eigen::VectorXf half_square = centroids.rowwise().squaredNorm() / 2;
  std::vector<std::uint16_t> codes;
  for (Eigen::Index j = 0; j < keys.rows(); ++j) {
    Eigen::Index nearest = 0;
    (half_square - centroids * keys.row(j).transpose()).minCoeff(&nearest);
    codes.push_back(static_cast<std::uint16_t>(nearest));
  }
  return codes;
}

/// k-means++ (Arthur and Vassilvitskii 2007): each next centroid is a key, drawn with a chance
/// proportional to its squared distance from the nearest one so far.
Matrix first_centroids(const Rows& keys, Eigen::Index count, std::uint64_t seed) {
  Matrix centroids(count, keys.cols());
  Eigen::VectorXd distance =
      Eigen::VectorXd::Constant(keys.rows(), std::numeric_limits<double>::infinity());
  auto drawn =
      static_cast<Eigen::Index>(random_bits(seed, 0) % static_cast<std::uint64_t>(keys.rows()));
  for (Eigen::Index i = 0; i < count; ++i) {
    centroids.row(i) = keys.row(drawn);
    distance = distance.cwiseMin(
        (keys.rowwise() - keys.row(drawn)).rowwise().squaredNorm().cast<double>());
    const double share = static_cast<double>(random_bits(seed, i + 1) >> 11) * 0x1p-53;
    double left = share * distance.sum();
    // Keys that are all the same have no distance: the next one is as good.
    drawn = (drawn + 1) % keys.rows();
    for (Eigen::Index j = 0; j < keys.rows(); ++j) {
      if (distance[j] <= 0) continue;
      drawn = j;
      left -= distance[j];
      if (left < 0) break;
    }
  }
  return centroids;
}

void move_to_means(const Rows& keys, const std::vector<std::uint16_t>& codes, Matrix& centroids) {
  MatrixDouble sum = MatrixDouble::Zero(centroids.rows(), centroids.cols());
  std::vector<int> count(static_cast<std::size_t>(centroids.rows()));
  for (std::size_t j = 0; j < codes.size(); ++j) {
    sum.row(codes[j]) += keys.row(static_cast<Eigen::Index>(j)).cast<double>();
    ++count[codes[j]];
  }
  for (Eigen::Index i = 0; i < centroids.rows(); ++i) {
    if (count[i] > 0) centroids.row(i) = (sum.row(i) / count[i]).cast<float>();
  }
}

}  // namespace

KeyCodebooks::KeyCodebooks(const Matrix& keys, int num_trained, int groups, int bits,
                           std::uint64_t seed) {
  const Eigen::Index dims = keys.cols() / groups;
  for (int g = 0; g < groups; ++g) {
    Group& group = groups_.emplace_back();
    group.first = g * dims;
    const auto all = keys.middleCols(group.first, dims);
    const auto trained = all.topRows(num_trained);
    group.centroids =
        first_centroids(trained, std::min<Eigen::Index>(Eigen::Index{1} << bits, num_trained),
                        random_bits(seed, g));
    std::vector<std::uint16_t> codes = codes_of(trained, group.centroids);
    for (int i = 0; i < kIterations; ++i) {
      poll_interrupt();
      move_to_means(trained, codes, group.centroids);
      std::vector<std::uint16_t> next = codes_of(trained, group.centroids);
      if (next == codes) break;
      codes = std::move(next);
    }
    group.code = codes_of(all, group.centroids);
  }
}

void KeyCodebooks::multiply(const float* query, int begin, int end,
                            std::vector<float>& product) const {
  product.assign(static_cast<std::size_t>(end - begin), 0);
  for (const Group& group : groups_) {
    const Eigen::Map<const Eigen::VectorXf> part(query + group.first, group.centroids.cols());
    const Eigen::VectorXf table = group.centroids * part;
    for (int j = begin; j < end; ++j) product[j - begin] += table[group.code[j]];
  }
}

}  // namespace kvsim
