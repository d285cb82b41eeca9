#include <numeric>

#include "oracle/lookahead/eviction_cost.h"

namespace kvsim {
namespace {

/// One query head and one sample of its gradients.
class Sample {
 public:
  /// `gradient` is [tokens, value_dim] and has to outlive the object.
  Sample(const Matrix& gradient, const HeldTokens& held, std::size_t steps)
      : recorded_(&gradient),
        gradient_(steps, held.stride()),
        value_product_(steps, held.capacity()) {}

  void enter(const HeldTokens& held, int first, std::size_t count) {
    for (int step = first; step < first + static_cast<int>(count); ++step) {
      const auto gradient = recorded_->row(step);
      std::copy(gradient.begin(), gradient.end(), gradient_.row(step));
    }
    multiply_rows({gradient_.row(first), count, held.stride()}, held.values(),
                  value_product_.row(first), held.capacity());
  }

  void remove(std::size_t slot, std::size_t count) { value_product_.remove(slot, count); }

  double times(int step, const double* vector) const {
    return std::inner_product(vector, vector + gradient_.columns(), gradient_.row(step), 0.0);
  }

  const double* with_values(int step) const { return value_product_.row(step); }

 private:
  const Matrix* recorded_;
  StepsBySlots gradient_;  // columns are dimensions
  StepsBySlots value_product_;
};

/// One query head.
struct Head {
  UpcomingOutputs outputs;
  std::vector<Sample> samples;
};

class PredictedCost final : public EvictionCost {
 public:
  PredictedCost(const Unit& unit, const HeldTokens& held, std::size_t steps) {
    for (std::size_t head = 0; head < unit.query.size(); ++head) {
      heads_.push_back({UpcomingOutputs(held, steps), {}});
      for (const std::vector<Matrix>& sample : unit.output_score_grad) {
        heads_.back().samples.emplace_back(sample[head], held, steps);
      }
    }
  }

  void enter(const HeldTokens& held, const AttentionBlock& block, int first_row) override {
    for (std::size_t i = 0; i < heads_.size(); ++i) {
      for (int row = first_row; row < block.num_steps; ++row) {
        heads_[i].outputs.enter(held, block, block.heads[i], row);
      }
      for (Sample& sample : heads_[i].samples) {
        sample.enter(held, block.first_step + first_row,
                     static_cast<std::size_t>(block.num_steps - first_row));
      }
    }
  }

  void leave(const HeldTokens& held, std::size_t slot, int first, int last) override {
    for (Head& head : heads_) {
      for (int step = first; step <= last; ++step) head.outputs.leave(held, step, slot);
      head.outputs.remove(slot, held.count());
      for (Sample& sample : head.samples) sample.remove(slot, held.count());
    }
  }

  void add_changes(const HeldTokens& held, int first, int last, double* change) override {
    for (const Head& head : heads_) {
      for (int step = first; step <= last; ++step) add_changes(held, head, step, change);
    }
  }

  double loss(int first, int last) const override {
    double sum = 0;
    for (const Head& head : heads_) {
      std::vector<double> error(head.outputs.dims());
      for (int step = first; step <= last; ++step) {
        head.outputs.error(step, error.data());
        for (const Sample& sample : head.samples) {
          const double along = sample.times(step, error.data());
          sum += along * along;
        }
      }
    }
    return sum;
  }

  std::unique_ptr<EvictionCost> copy() const override {
    return std::make_unique<PredictedCost>(*this);
  }

 private:
  static void add_changes(const HeldTokens& held, const Head& head, int step, double* change) {
    const double sum = head.outputs.weight_sum(step);
    if (sum <= 0) return;
    bool has_dominant = false;
    for (const Sample& sample : head.samples) {
      const double cached = sample.times(step, head.outputs.numerator(step)) / sum;
      const double full = sample.times(step, head.outputs.output(step));
      has_dominant = add_projected_changes(
          {.weight_sum = sum, .cached = cached, .error = cached - full}, head.outputs.weight(step),
          sample.with_values(step), padded_to_doubles(held.count()), change);
    }
    if (has_dominant) add_dominant(held, head, step, change);
  }

  static void add_dominant(const HeldTokens& held, const Head& head, int step, double* change) {
    std::vector<double> present(held.stride());
    std::vector<double> without(held.stride());
    head.outputs.error(step, present.data());
    for (const std::size_t slot : head.outputs.dominant(step)) {
      head.outputs.error_without(held, step, slot, without.data());
      for (const Sample& sample : head.samples) {
        const double before = sample.times(step, present.data());
        const double after = sample.times(step, without.data());
        change[slot] += after * after - before * before;
      }
    }
  }

  std::vector<Head> heads_;
};

}  // namespace

std::unique_ptr<EvictionCost> make_predicted_cost(const Unit& unit, const HeldTokens& held,
                                                  std::size_t steps) {
  return std::make_unique<PredictedCost>(unit, held, steps);
}

}  // namespace kvsim
