#pragma once

#include <string>

namespace kvsim {

/// The concave functions h of H2O Remark D.14, applied to the attention that a set of tokens
/// receives. They are 0 at 0 and non-decreasing, so that their sum over steps is monotone and
/// submodular in the set.
enum class Concave { identity, sqrt, log1p };

/// `name` is "identity", "sqrt" or "log1p".
Concave parse_concave(const std::string& name);

/// h itself.
double value(Concave h, double x);

/// The part of total_loss() that depends on `kept` alone, computed once for all candidates.
double prepare(Concave h, double kept);

/// Sum over i of h(kept[i]) - h(kept[i] - lost[i]), over arrays of length `count`. Requires 0 <=
/// lost[i] <= kept[i] up to rounding, kept[i] <= 7 and prepared[i] = prepare(h, kept[i]).
double total_loss(Concave h, const double* kept, const double* prepared, const float* lost,
                  int count);

}  // namespace kvsim
