#include "traces/logit_bound.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace kvsim {
namespace {

/// The length of the longest row.
double longest(const Matrix& matrix) {
  // Numbers whose squares are floats of all digits are added up in half the time.
  constexpr float kFar = 1e15F;
  const float largest = matrix.cwiseAbs().maxCoeff();
  if (largest == 0) return 0;
  if (largest < kFar && largest > 1 / kFar) {
    return std::sqrt(static_cast<double>(matrix.rowwise().squaredNorm().maxCoeff()));
  }
  return matrix.cast<double>().rowwise().norm().maxCoeff();
}

}  // namespace

LogitBound::LogitBound(Place layer, double scale)
    : layer_(std::move(layer)), scale_(std::max(1.0, scale)) {}

void LogitBound::add(const std::vector<Matrix>& query, const Matrix& key) {
  for (const Matrix& head : query) query_ = std::max(query_, longest(head));
  key_ = std::max(key_, longest(key));
  const double bound = query_ * key_ * scale_;
  if (bound > std::numeric_limits<float>::max()) {
    layer_.fail("queries and keys whose logits fit float32", fmt::format("up to {:.1g}", bound),
                "check the recorder's scale");
  }
}

}  // namespace kvsim
