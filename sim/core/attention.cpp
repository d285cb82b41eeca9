#include "sim/core/attention.h"

#include <algorithm>
#include <cmath>

namespace kvsim {
namespace {

constexpr int kKeysPerProduct = 256;

class CpuPass final : public AttentionPass {
 public:
  explicit CpuPass(const Unit& unit) : unit_(unit), longest_value_(longest_values(unit)) {}

  void compute(int first_step, int num_steps, AttentionBlock& block) override {
    block.first_step = first_step;
    block.num_steps = num_steps;
    const auto longest = longest_value_.begin() + first_step;
    block.longest_value.assign(longest, longest + num_steps);
    block.heads.resize(unit_.query.size());
    for (std::size_t head = 0; head < unit_.query.size(); ++head) {
      compute_head(unit_.query[head], block, block.heads[head]);
    }
  }

 private:
  void compute_head(const Matrix& query, const AttentionBlock& block, HeadAttention& head) const {
    const int width = block.first_step + block.num_steps;
    head.logit.noalias() = query.middleRows(block.first_step, block.num_steps) *
                           (unit_.scale * unit_.key.topRows(width)).transpose();
    if (unit_.logit_softcap) {
      const float cap = *unit_.logit_softcap;
      head.logit = cap * (head.logit.array() / cap).tanh();
    }
    head.weight.setZero(block.num_steps, width);
    head.weight_sum.resize(block.num_steps);
    head.num_pivotal.resize(block.num_steps);
    for (int row = 0; row < block.num_steps; ++row) weigh_row(block.first_step + row, row, head);
    compute_output(head);
  }

  void weigh_row(int step, int row, HeadAttention& head) const {
    const int begin = first_visible(unit_, step);
    const int visible = step + 1 - begin;
    const auto logit = head.logit.row(row).segment(begin, visible).array();
    auto weight = head.weight.row(row).segment(begin, visible);
    // One element at a time: vectorised and remaining elements would differ in the last bit, and
    // equal logits have to tie.
    weight = (logit - logit.maxCoeff()).unaryExpr([](float x) { return std::exp(x); });
    const double sum = weight.cast<double>().sum();
    head.weight_sum[row] = sum;
    head.num_pivotal[row] = static_cast<int>(std::count_if(
        weight.begin(), weight.end(), [&](float w) { return is_pivotal(w, sum, step); }));
  }

  // In double: the error of an evicting cache is a difference from this output, often a small one.
  void compute_output(HeadAttention& head) const {
    const int width = static_cast<int>(head.weight.cols());
    head.output.setZero(head.weight.rows(), unit_.value.cols());
    for (int begin = 0; begin < width; begin += kKeysPerProduct) {
      const int count = std::min(kKeysPerProduct, width - begin);
      const MatrixDouble weight = head.weight.middleCols(begin, count).cast<double>();
      const MatrixDouble value = unit_.value.middleRows(begin, count).cast<double>();
      head.output.noalias() += weight * value;
    }
    for (int row = 0; row < head.output.rows(); ++row) head.output.row(row) /= head.weight_sum[row];
  }

  const Unit& unit_;
  std::vector<double> longest_value_;
};

class CpuBackend final : public Backend {
 public:
  std::string device() const override { return "cpu"; }

  std::unique_ptr<AttentionPass> attend(const Unit& unit) const override {
    return std::make_unique<CpuPass>(unit);
  }
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend() { return std::make_unique<CpuBackend>(); }

std::vector<double> longest_values(const Unit& unit) {
  std::vector<double> result;
  double longest = 0;
  for (int token = 0; token < unit.num_tokens(); ++token) {
    longest = std::max(longest, unit.value.row(token).cast<double>().norm());
    result.push_back(longest);
  }
  return result;
}

int first_visible(const Unit& unit, int step) {
  return unit.sliding_window ? std::max(0, step + 1 - *unit.sliding_window) : 0;
}

}  // namespace kvsim
