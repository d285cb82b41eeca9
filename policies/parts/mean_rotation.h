#pragma once

#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

namespace kvsim {

/// The rotation of vectors to a position (Su et al., "RoFormer", 2021, section 3.4), or the mean of
/// the rotations to several, which also shortens them. The attention factor, by which a model
/// multiplies rotated vectors, is left as it is; so are dimensions that it does not rotate.
class MeanRotation {
 public:
  /// To the positions first .. first + count - 1; a negative one rotates back. The frequencies are
  /// of pairs of dimensions: 2i and 2i + 1 if `interleaved`, else i and i + their number. In closed
  /// form: cosines and sines of equally spaced angles are a geometric series.
  MeanRotation(std::span<const double> frequencies, bool interleaved, int first, int count = 1)
      : interleaved_(interleaved) {
    const double centre = first + 0.5 * (count - 1);
    for (const double frequency : frequencies) {
      const double half = std::sin(0.5 * frequency);
      const double length = half == 0 ? 1 : std::sin(0.5 * count * frequency) / (count * half);
      cosine_.push_back(length * std::cos(centre * frequency));
      sine_.push_back(length * std::sin(centre * frequency));
    }
  }

  /// `vector` is [head_dim].
  void apply(std::span<double> vector) const { turn(vector, 1); }

  /// The transposed map: <apply(x), y> = <x, apply_transposed(y)>.
  void apply_transposed(std::span<double> vector) const { turn(vector, -1); }

 private:
  void turn(std::span<double> vector, int direction) const {
    const std::size_t pairs = cosine_.size();
    for (std::size_t pair = 0; pair < pairs; ++pair) {
      double& a = vector[interleaved_ ? 2 * pair : pair];
      double& b = vector[interleaved_ ? 2 * pair + 1 : pair + pairs];
      const double sine = direction * sine_[pair];
      const double turned = a * cosine_[pair] - b * sine;
      b = b * cosine_[pair] + a * sine;
      a = turned;
    }
  }

  bool interleaved_;
  std::vector<double> cosine_;  // per rotated pair of dimensions
  std::vector<double> sine_;
};

}  // namespace kvsim
