// Group-wise quantisation (FlexGen: Sheng et al., ICML 2023, section 5, "Approximate methods"):
// code = round((x - least) / step), step = (largest - least) / (2^bits - 1).
//
// The least number and the step are themselves rounded when they are stored. The codes could then
// end more than half a step below the largest number, or begin above the least. The paper does not
// discuss this; here both are rounded so that the codes reach both ends.

#include "policies/parts/quantization.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "policies/parts/half.h"

namespace kvsim {
namespace {

/// Rounds numbers that are stored as halves or floats.
class Precision {
 public:
  explicit Precision(int element_bytes) : half_(element_bytes == 2) {}

  double nearest(double x) const {
    constexpr double kLargest = std::numeric_limits<float>::max();
    const auto rounded = static_cast<float>(std::clamp(x, -kLargest, kLargest));
    return half_ ? round_to_half(rounded) : rounded;
  }

  double spacing(double x) const {
    const auto magnitude = static_cast<float>(std::fabs(x));
    if (half_) return half_spacing(magnitude);
    return static_cast<double>(std::nextafter(magnitude, std::numeric_limits<float>::infinity())) -
           magnitude;
  }

 private:
  bool half_;
};

struct Scale {
  double least;
  double step;
};

Scale scale_of(double least, double largest, int levels, const Precision& precision) {
  const auto is_short = [&](const Scale& scale) {
    return scale.least + (levels + 0.5) * scale.step < largest;
  };
  Scale scale{.least = precision.nearest(least), .step = 0};
  if (scale.least > least) {
    scale.least = precision.nearest(scale.least - precision.spacing(least));
  }
  scale.step = precision.nearest((largest - scale.least) / levels);
  // Rounding a subnormal step changes more than its last bits.
  if (is_short(scale)) scale.step = precision.nearest(scale.step + precision.spacing(scale.step));
  // One-bit codes may not span the range, but can come within half a step of both ends.
  if (is_short(scale)) scale.least = precision.nearest((least + largest - levels * scale.step) / 2);
  return scale;
}

}  // namespace

void Quantization::round(std::span<float> vector, int element_bytes) const {
  const Precision precision(element_bytes);
  const Precision restored(sizeof(float));
  const int levels = (1 << bits) - 1;
  while (!vector.empty()) {
    const auto numbers = vector.first(std::min(vector.size(), static_cast<std::size_t>(group)));
    const auto [least, largest] = std::minmax_element(numbers.begin(), numbers.end());
    const Scale scale = scale_of(*least, *largest, levels, precision);
    for (float& x : numbers) {
      const double code = scale.step == 0 ? 0 : std::nearbyint((x - scale.least) / scale.step);
      x = static_cast<float>(
          restored.nearest(scale.least + std::clamp<double>(code, 0, levels) * scale.step));
    }
    vector = vector.subspan(numbers.size());
  }
}

std::size_t Quantization::bytes(std::size_t dim, int element_bytes) const {
  const std::size_t codes = (dim * static_cast<std::size_t>(bits) + 7) / 8;
  const auto size = static_cast<std::size_t>(group);
  const std::size_t num_groups = (dim + size - 1) / size;
  return codes + num_groups * 2 * static_cast<std::size_t>(element_bytes);
}

}  // namespace kvsim
