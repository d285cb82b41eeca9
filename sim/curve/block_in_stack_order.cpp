#include "sim/curve/block_in_stack_order.h"

#include <algorithm>

#include "sim/kernels/attention_kernels.h"

namespace kvsim {

void BlockInStackOrder::reset(const AttentionBlock& block, int num_places) {
  order.resize(block.num_steps);
  for (auto& tokens : order) tokens.clear();
  first_place.assign(block.num_steps, 0);
  heads.resize(block.heads.size());
  for (Head& head : heads) head.weight.resize(block.num_steps, num_places);
}

void BlockInStackOrder::add(int row, int head, const StackOrder& step) {
  if (head == 0) {
    first_place[row] = step.first_place;
    order[row].assign(static_cast<std::size_t>(step.first_place), 0);
    order[row].insert(order[row].end(), step.order.begin(), step.order.end());
  }
  auto to = heads[head].weight.row(row);
  float* first = std::fill_n(to.data(), step.first_place, 0.0F);
  std::fill(std::copy(step.weight.begin(), step.weight.end(), first), to.data() + to.size(), 0.0F);
}

StackOrder BlockInStackOrder::step(int row, int head) const {
  const int first = first_place[row];
  const auto tokens = std::span(order[row]).subspan(static_cast<std::size_t>(first));
  return {first, tokens, {heads[head].weight.row(row).data() + first, tokens.size()}};
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
