#pragma once

#include <string>

namespace kvsim {

/// The concave functions of H2O Remark D.14 through which a set's attention is valued: 0 at 0 and
/// non-decreasing, so that sums of them over steps are monotone and submodular in the set.
enum class Concave { identity, sqrt, log1p };

/// "identity", "sqrt" or "log1p".
Concave parse_concave(const std::string& name);

/// Sum over i of h(kept[i]) - h(kept[i] - lost[i]), with 0 <= lost[i] <= kept[i] but for rounding.
double total_loss(Concave h, const float* kept, const float* lost, int count);

/// h itself.
double value(Concave h, double x);

}  // namespace kvsim
