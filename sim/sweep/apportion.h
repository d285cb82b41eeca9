#pragma once

#include <vector>

namespace kvsim {

/// Parts in proportion to `weights`, none above `most`: what exceeds it goes to the others, in
/// proportion to theirs. Their sum is `total`, if that many fit. Weights that are all 0 count as
/// equal.
std::vector<double> proportional(int total, int most, const std::vector<double>& weights);

/// Takes from the largest part, the first of equals, until none is below `least` and the sum is at
/// most `total`.
void raise_to(int least, int total, std::vector<int>& parts);

/// `ideal` in whole numbers from `least` to `most`, with the given sum if that many fit: rounded
/// down, then largest remainders first, earlier ones first among equals.
std::vector<int> rounded(const std::vector<double>& ideal, int total, int least, int most);

/// Whole numbers in proportion to `weights`, from `least` to `most` each, with the given sum if
/// that many fit: rounded(proportional()).
std::vector<int> apportion(int total, int least, int most, const std::vector<double>& weights);

}  // namespace kvsim
