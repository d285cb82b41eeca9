#include "sim/attention/step_pass.h"

#include <numeric>

#include "sim/kernels/value_kernels.h"

namespace kvsim {
namespace {

class StepPass final : public AttentionPass {
 public:
  explicit StepPass(const Unit& unit)
      : unit_(unit),
        keys_(unit.key, unit.scale),
        longest_value_(longest_values(unit)),
        tokens_(static_cast<std::size_t>(unit.num_tokens())) {
    std::iota(tokens_.begin(), tokens_.end(), 0);
  }

  void compute(int step, int num_steps, Outputs, AttentionBlock& block) override {
    block.first_step = step;
    block.num_steps = num_steps;
    block.longest_value.assign(1, longest_value_[step]);
    block.heads.resize(unit_.query.size());
    for (std::size_t i = 0; i < unit_.query.size(); ++i) {
      HeadAttention& head = block.heads[i];
      weigh(unit_, keys_, unit_.query[i].row(step).data(), static_cast<int>(i), block);
      count_pivotal(step, head);
      compute_output(step, head);
    }
  }

 private:
  static void count_pivotal(int step, HeadAttention& head) {
    int count = 0;
    for (int token = 0; token <= step; ++token) {
      count += is_pivotal(head.weight(0, token), head.weight_sum[0], step);
    }
    head.num_pivotal.assign(1, count);
  }

  void compute_output(int step, HeadAttention& head) const {
    const auto count = static_cast<std::size_t>(step) + 1;
    head.output.setZero(1, unit_.value.cols());
    add_values(unit_.value, std::span(tokens_).first(count), {head.weight.row(0).data(), count},
               head.output.data());
    head.output /= head.weight_sum[0];
    set_output_norms(head);
  }

  const Unit& unit_;
  KeyPanels keys_;
  std::vector<double> longest_value_;
  std::vector<std::int32_t> tokens_;
};

}  // namespace

std::unique_ptr<AttentionPass> attend_single_steps(const Unit& unit) {
  return std::make_unique<StepPass>(unit);
}

}  // namespace kvsim
