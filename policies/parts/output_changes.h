#pragma once

#include <span>

namespace kvsim {

// How much the output of a query changes without one of its tokens (`lookback`): with the softmax p
// over the tokens, by p / (1 - p) (o - v). In double precision and identical to the last bit on
// every processor. Arrays per token are as long as the span.

/// Keeps the ratios of what has no weight left finite.
inline constexpr double kLeastWeight = 1e-30;

/// After a token left, whose weight was `ratio` times the sum of all others: updates <o, v[i]> of
/// all tokens i, and <e, v[i]> unless `along_error` is null. `products` are <v, v[i]> of the value
/// that left.
void follow_removal(double ratio, const double* products, std::span<double> along_output,
                    double* along_error);

/// The output and the error of a query over its tokens.
struct QueryOutput {
  double weight_sum;
  double output_square;
  double error_along_output;
};

/// scores[i] += |e - r (v[i] - o)|^2 - |e|^2 with r = w[i] / (sum - w[i]), for the output o and its
/// error e, of which each value has its products `along_output` and `along_error`; `squares` are of
/// the values.
void add_output_changes(const QueryOutput& query, std::span<const double> weights,
                        const double* squares, const double* along_output,
                        const double* along_error, double* scores);

}  // namespace kvsim
