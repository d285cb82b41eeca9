#pragma once

#include <span>

namespace kvsim {

// How much the output of a query changes without one of its tokens (`lookback`): with the softmax p
// over the tokens, by p / (1 - p) (o - v). In double precision and identical to the last bit on
// every processor. Arrays per token are as long as the span.

/// Keeps the ratios of what has no weight left finite.
inline constexpr double kLeastWeight = 1e-30;

/// Of a query's output o and its error e, in the sums of sum_in_lanes().
struct OutputProducts {
  double output_square = 0;
  double error_along_output = 0;
};
OutputProducts output_products(std::span<const double> output, const double* error);

/// After a token with this value left, whose weight was `ratio` times the sum of all others: moves
/// the output and, unless it is null, the error by ratio (o - v), and returns their products.
OutputProducts move_output(double ratio, std::span<const double> value, double* output,
                           double* error);

/// A token that left, with `ratio` times the weight of all others; `products` are <v, v[i]> of its
/// value with those of tokens i.
struct Removal {
  double ratio = 0;
  const double* products = nullptr;
};

/// After it left: updates <o, v[i]> of all tokens i, and <e, v[i]> unless `along_error` is null.
void follow_removal(const Removal& removal, std::span<double> along_output, double* along_error);

/// scores[i] += |e - r (v[i] - o)|^2 - |e|^2 with r = w[i] / (sum - w[i]), for the output o and its
/// error e, which have `of_output`, and of which each value has its products `along_output` and
/// `along_error`; `squares` are of the values. If the removal has products, follows it first.
void add_output_changes(double weight_sum, const OutputProducts& of_output,
                        std::span<const double> weights, const double* squares,
                        double* along_output, double* along_error, double* scores,
                        const Removal& removal = {});

}  // namespace kvsim
