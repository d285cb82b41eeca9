#include "sim/curve/block_in_stack_order.h"

#include <algorithm>

#include "sim/kernels/attention_kernels.h"

namespace kvsim {

void BlockInStackOrder::reset(const AttentionBlock& block) {
  order.resize(block.num_steps);
  for (auto& tokens : order) tokens.clear();
  heads.resize(block.heads.size());
  for (Head& head : heads) {
    head.weight.resize(block.num_steps, block.first_step + block.num_steps);
  }
}

void BlockInStackOrder::add(int row, int head, std::span<const std::int32_t> tokens,
                            std::span<const float> weight) {
  if (head == 0) order[row].assign(tokens.begin(), tokens.end());
  auto to = heads[head].weight.row(row);
  std::fill(std::copy(weight.begin(), weight.end(), to.data()), to.data() + to.size(), 0.0F);
}

void BlockInStackOrder::transpose() {
  for (Head& head : heads) {
    for (std::size_t row = 0; row < order.size(); ++row) {
      if (order[row].empty()) head.weight.row(static_cast<int>(row)).setZero();
    }
    arrange_by_token(head.weight.data(), static_cast<int>(head.weight.rows()),
                     static_cast<int>(head.weight.cols()), head.weight_by_place);
  }
}

}  // namespace kvsim
