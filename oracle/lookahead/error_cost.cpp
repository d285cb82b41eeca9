// Evicting token j moves an output ô to ô + y (ô - v_j), y being its weight over that of all
// others. So the squared error changes by 2 y <ô - o, ô - v_j> + y² |ô - v_j|², which needs the
// products of the values with ô and o. The latter do not change while a step is to come; the former
// change with each eviction by a multiple of the products with the value that left.

#include <algorithm>
#include <array>

#include "oracle/lookahead/eviction_cost.h"

namespace kvsim {
namespace {

/// One query head.
class HeadErrors {
 public:
  HeadErrors(const HeldTokens& held, std::size_t steps)
      : outputs_(held, steps),
        numerator_product_(steps, held.capacity()),
        output_product_(steps, held.capacity()) {}

  void enter(const HeldTokens& held, const AttentionBlock& block, const HeadAttention& head,
             int first_row) {
    for (int row = first_row; row < block.num_steps; ++row) outputs_.enter(held, block, head, row);
    const int first = block.first_step + first_row;
    const auto count = static_cast<std::size_t>(block.num_steps - first_row);
    multiply_rows({outputs_.numerator(first), count, held.stride()}, held.values(),
                  numerator_product_.row(first), held.capacity());
    multiply_rows({outputs_.output(first), count, held.stride()}, held.values(),
                  output_product_.row(first), held.capacity());
  }

  /// `products` are those of the values with that in `slot`.
  void leave(const HeldTokens& held, std::size_t slot, int first, int last,
             const double* products) {
    const std::size_t columns = padded_to_doubles(held.count());
    for (int step = first; step <= last; ++step) {
      const double weight = outputs_.weight(step)[slot];
      if (weight == 0) continue;
      if (outputs_.leave(held, step, slot)) {
        add_scaled_doubles(-weight, products, columns, numerator_product_.row(step));
      } else {
        multiply_rows({outputs_.numerator(step), 1, held.stride()}, held.values(),
                      numerator_product_.row(step), held.capacity());
      }
    }
    outputs_.remove(slot, held.count());
    numerator_product_.remove(slot, held.count());
    output_product_.remove(slot, held.count());
  }

  void add_changes(const HeldTokens& held, int first, int last, const double* square,
                   double* change) const {
    for (int begin = first; begin <= last; begin += kStepsTogether) {
      const auto [squares, with_output] = products_of(begin, last);
      for (int i = 0; i < kStepsTogether && begin + i <= last; ++i) {
        add_changes_at(held, begin + i, squares[i], with_output[i], square, change);
      }
    }
  }

  /// |ô - o|²
  double loss(int step) const {
    std::vector<double> error(outputs_.dims());
    outputs_.error(step, error.data());
    return product(error.data(), error.data(), error.size());
  }

 private:
  static constexpr int kStepsTogether = 4;

  /// Of the numerators of steps `begin` and after: with themselves and with the full outputs.
  struct Products {
    std::array<double, kStepsTogether> squares = {};
    std::array<double, kStepsTogether> with_output = {};
  };

  // Several steps at a time, because every term of a single sum would wait for the last. A
  // last group of fewer steps repeats the last one; its extra sums are not used.
  Products products_of(int begin, int last) const {
    std::array<const double*, kStepsTogether> numerator;
    std::array<const double*, kStepsTogether> output;
    for (int i = 0; i < kStepsTogether; ++i) {
      numerator[i] = outputs_.numerator(std::min(begin + i, last));
      output[i] = outputs_.output(std::min(begin + i, last));
    }
    Products products;
    for (std::size_t dim = 0; dim < outputs_.dims(); ++dim) {
      for (int i = 0; i < kStepsTogether; ++i) {
        const double of_cache = numerator[i][dim];
        products.squares[i] += of_cache * of_cache;
        products.with_output[i] += of_cache * output[i][dim];
      }
    }
    return products;
  }

  void add_changes_at(const HeldTokens& held, int step, double numerator_square,
                      double numerator_output, const double* square, double* change) const {
    const double sum = outputs_.weight_sum(step);
    if (sum <= 0) return;
    const double length = numerator_square / (sum * sum);
    const double along = numerator_output / sum;
    const bool has_dominant =
        add_error_changes({.weight_sum = sum, .square = length, .with_error = length - along},
                          {.weight = outputs_.weight(step),
                           .numerator_product = numerator_product_.row(step),
                           .output_product = output_product_.row(step),
                           .square = square},
                          padded_to_doubles(held.count()), change);
    if (has_dominant) add_dominant(held, step, change);
  }

  void add_dominant(const HeldTokens& held, int step, double* change) const {
    std::vector<double> error(held.stride());
    const double present = loss(step);
    for (const std::size_t slot : outputs_.dominant(step)) {
      outputs_.error_without(held, step, slot, error.data());
      change[slot] += product(error.data(), error.data(), error.size()) - present;
    }
  }

  UpcomingOutputs outputs_;
  StepsBySlots numerator_product_;
  StepsBySlots output_product_;
};

class ErrorCost final : public EvictionCost {
 public:
  ErrorCost(const Unit& unit, const HeldTokens& held, std::size_t steps)
      : products_(held.capacity()), square_(held.capacity()) {
    for (int head = 0; head < unit.group_size(); ++head) heads_.emplace_back(held, steps);
  }

  void enter(const HeldTokens& held, const AttentionBlock& block, int first_row) override {
    for (std::size_t head = 0; head < heads_.size(); ++head) {
      heads_[head].enter(held, block, block.heads[head], first_row);
    }
    for (std::size_t slot = 0; slot < held.count(); ++slot) {
      square_[slot] = product(held.value(slot), held.value(slot), held.stride());
    }
  }

  void leave(const HeldTokens& held, std::size_t slot, int first, int last) override {
    multiply_rows({held.value(slot), 1, held.stride()}, held.values(), products_.data(), 0);
    for (HeadErrors& head : heads_) head.leave(held, slot, first, last, products_.data());
    square_[slot] = square_[held.count() - 1];
  }

  void add_changes(const HeldTokens& held, int first, int last, double* change) override {
    for (const HeadErrors& head : heads_) {
      head.add_changes(held, first, last, square_.data(), change);
    }
  }

  double loss(int first, int last) const override {
    double sum = 0;
    for (const HeadErrors& head : heads_) {
      for (int step = first; step <= last; ++step) sum += head.loss(step);
    }
    return sum;
  }

  std::unique_ptr<EvictionCost> copy() const override { return std::make_unique<ErrorCost>(*this); }

 private:
  std::vector<HeadErrors> heads_;
  std::vector<double> products_;  // of all values with that of the token that leaves
  std::vector<double> square_;    // per slot: |v_j|²
};

}  // namespace

std::unique_ptr<EvictionCost> make_error_cost(const Unit& unit, const HeldTokens& held,
                                              std::size_t steps) {
  return std::make_unique<ErrorCost>(unit, held, steps);
}

}  // namespace kvsim
