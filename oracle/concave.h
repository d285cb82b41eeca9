#pragma once

#include <string>

namespace kvsim {

/// The concave functions of H2O Remark D.14 through which a set's attention is valued: 0 at 0 and
/// non-decreasing, so that sums of them over steps are monotone and submodular in the set.
enum class Concave { identity, sqrt, log1p };

/// "identity", "sqrt" or "log1p".
Concave parse_concave(const std::string& name);

/// h itself.
double value(Concave h, double x);

/// What total_loss() has to know of h at `kept`, so that it is computed once for all candidates.
double prepare(Concave h, double kept);

/// Sum over i of h(kept[i]) - h(kept[i] - lost[i]), with 0 <= lost[i] <= kept[i] but for rounding,
/// kept[i] at most 7 and prepared[i] what prepare() gave for it.
double total_loss(Concave h, const double* kept, const double* prepared, const float* lost,
                  int count);

}  // namespace kvsim
