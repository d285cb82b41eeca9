// With x = sin(angle) the density becomes cos(angle)^(dim - 2), which has no poles, and the mean of
// x between two angles is a difference of powers of cosines over the mass between them.

#include "policies/parts/unit_vector_levels.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <numbers>
#include <utility>

namespace kvsim {
namespace {

constexpr double kQuarter = std::numbers::pi / 2;  // angles are in [-kQuarter, kQuarter]
constexpr int kCells = 4096;
constexpr int kMostRounds = 5000;
constexpr double kSettled = 1e-12;

/// Integrals of cos(angle)^power from -kQuarter on.
class CosineMass {
 public:
  explicit CosineMass(double power) : power_(power), sums_{0} {
    for (int cell = 0; cell < kCells; ++cell) {
      sums_.push_back(sums_.back() + simpson(edge(cell), edge(cell + 1)));
    }
  }

  double up_to(double angle) const {
    const double place = (angle + kQuarter) / kWidth;
    const int cell = std::clamp(static_cast<int>(place), 0, kCells - 1);
    return sums_[static_cast<std::size_t>(cell)] + simpson(edge(cell), angle);
  }

  double total() const { return sums_.back(); }

  /// The angle at which the integral has this value.
  double angle_of(double mass) const {
    double low = -kQuarter;
    double high = kQuarter;
    while (high - low > 1e-9) {
      const double middle = (low + high) / 2;
      (up_to(middle) < mass ? low : high) = middle;
    }
    return (low + high) / 2;
  }

 private:
  static constexpr double kWidth = 2 * kQuarter / kCells;
  static double edge(int cell) { return -kQuarter + kWidth * cell; }

  double density(double angle) const { return std::pow(std::max(std::cos(angle), 0.0), power_); }

  double simpson(double from, double to) const {
    return (to - from) / 6 * (density(from) + 4 * density((from + to) / 2) + density(to));
  }

  double power_;
  std::vector<double> sums_;
};

std::vector<double> lloyd_max(int dim, int bits) {
  const int count = 1 << bits;
  if (count == 1) return {0};
  // Many levels have about the density of the cube root of the numbers' own (Panter and Dite 1951).
  std::vector<double> levels;
  const CosineMass root(dim / 3.0);
  for (int i = 0; i < count; ++i) {
    levels.push_back(std::sin(root.angle_of(root.total() * (i + 0.5) / count)));
  }
  const CosineMass mass(dim - 2);
  const auto moment = [&](double angle) {  // the integral of x from `angle` on
    return std::pow(std::max(std::cos(angle), 0.0), dim - 1) / (dim - 1);
  };
  for (int round = 0; round < kMostRounds; ++round) {
    double moved = 0;
    double from = -kQuarter;
    for (std::size_t i = 0; i < levels.size(); ++i) {
      const double to =
          i + 1 < levels.size() ? std::asin((levels[i] + levels[i + 1]) / 2) : kQuarter;
      const double share = mass.up_to(to) - mass.up_to(from);
      if (share > 1e-15) {
        const double mean = (moment(from) - moment(to)) / share;
        moved = std::max(moved, std::fabs(mean - levels[i]));
        levels[i] = mean;
      }
      from = to;
    }
    if (moved < kSettled) break;
  }
  return levels;
}

}  // namespace

const std::vector<double>& unit_vector_levels(int dim, int bits) {
  static std::mutex mutex;
  static std::map<std::pair<int, int>, std::vector<double>> known;
  const std::lock_guard lock(mutex);
  const auto [found, is_new] = known.try_emplace({std::max(dim, 2), bits});
  if (is_new) found->second = lloyd_max(std::max(dim, 2), bits);
  return found->second;
}

}  // namespace kvsim
