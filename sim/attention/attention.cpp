#include "sim/attention/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "sim/kernels/attention_kernels.h"
#include "sim/kernels/value_kernels.h"

namespace kvsim {
namespace {

constexpr float kHidden = -std::numeric_limits<float>::infinity();

// The largest float weight that is not pivotal: weight > threshold is equivalent to is_pivotal().
float pivotal_threshold(double weight_sum, int step) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  auto threshold = static_cast<float>(weight_sum / (step + 1));
  while (is_pivotal(threshold, weight_sum, step)) threshold = std::nextafter(threshold, 0.0F);
  for (float next = threshold; !is_pivotal(next, weight_sum, step);) {
    threshold = next;
    next = std::nextafter(threshold, kInfinity);
  }
  return threshold;
}

/// Gives minus infinity to what a step does not select, which then has no weight.
void hide_unselected(const SelectedTokens& selected, int step, std::span<float> logit) {
  std::int32_t next = 0;
  for (const std::int32_t token : selected.at(step)) {
    std::fill(logit.begin() + next, logit.begin() + token, kHidden);
    next = token + 1;
  }
  std::fill(logit.begin() + next, logit.end(), kHidden);
}

void weigh_row(const Unit& unit, int index, int step, int row, HeadAttention& head) {
  const int begin = first_visible(unit, step);
  const auto visible = static_cast<std::size_t>(step + 1 - begin);
  float* weight = head.weight.row(row).data();
  std::fill_n(weight, begin, 0.0F);
  std::fill(weight + step + 1, weight + head.weight.cols(), 0.0F);
  float offset = unit.sink(index);
  const double sum =
      exponentials({head.logit.row(row).data() + begin, visible}, weight + begin, offset);
  head.sink_weight[row] = sink_weight(unit, index, offset);
  head.weight_sum[row] = sum + head.sink_weight[row];
}

class CpuPass final : public AttentionPass {
 public:
  explicit CpuPass(const Unit& unit)
      : unit_(unit), keys_(unit.key, unit.scale), longest_value_(longest_values(unit)) {}

  void compute(int first_step, int num_steps, Outputs outputs, AttentionBlock& block) override {
    block.first_step = first_step;
    block.num_steps = num_steps;
    const auto longest = longest_value_.begin() + first_step;
    block.longest_value.assign(longest, longest + num_steps);
    block.heads.resize(unit_.query.size());
    for (std::size_t i = 0; i < unit_.query.size(); ++i) {
      HeadAttention& head = block.heads[i];
      weigh(unit_, keys_, unit_.query[i].row(first_step).data(), static_cast<int>(i), block);
      summarise_weights(first_step, head);
      head.output.resize(0, 0);
      if (outputs == Outputs::required) compute_output(head);
    }
  }

 private:
  void compute_output(HeadAttention& head) {
    const auto width = static_cast<std::size_t>(head.weight.cols());
    const auto dims = static_cast<int>(unit_.value.cols());
    if (!values_) {
      values_.emplace(unit_.value);
      tokens_.resize(static_cast<std::size_t>(unit_.num_tokens()));
      std::iota(tokens_.begin(), tokens_.end(), 0);
    }
    sums_.setZero(dims, kBlockSteps);
    add_products({head.weight_by_token, *values_}, {.added = std::span(tokens_).first(width)}, 0,
                 dims, sums_.data(), sums_.data());
    head.output.resize(head.weight.rows(), dims);
    for (int row = 0; row < head.output.rows(); ++row) {
      head.output.row(row) = sums_.col(row).transpose() / head.weight_sum[row];
    }
    set_output_norms(head);
  }

  const Unit& unit_;
  KeyPanels keys_;
  std::vector<double> longest_value_;
  std::optional<ValuePanels> values_;  // set by the first compute_output()
  std::vector<std::int32_t> tokens_;   // all, in order; set with values_
  MatrixDouble sums_;
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

void weigh(const Unit& unit, const KeyPanels& keys, const float* query, int index,
           AttentionBlock& block) {
  HeadAttention& head = block.heads[index];
  const int width = block.first_step + block.num_steps;
  head.logit.resize(block.num_steps, width);
  keys.multiply(query, block.num_steps, width, head.logit.data());
  if (unit.logit_softcap) {
    const float cap = *unit.logit_softcap;
    head.logit = cap * (head.logit.array() / cap).tanh();
  }
  head.weight.resize(block.num_steps, width);
  head.sink_weight.resize(block.num_steps);
  head.weight_sum.resize(block.num_steps);
  for (int row = 0; row < block.num_steps; ++row) {
    if (unit.selected) {
      hide_unselected(*unit.selected, block.first_step + row,
                      {head.logit.row(row).data(), static_cast<std::size_t>(width)});
    }
    weigh_row(unit, index, block.first_step + row, row, head);
  }
}

std::vector<double> longest_values(const Unit& unit) {
  std::vector<double> result;
  double longest = 0;
  for (int token = 0; token < unit.num_tokens(); ++token) {
    longest = std::max(longest, unit.value.row(token).cast<double>().norm());
    result.push_back(longest);
  }
  return result;
}

void set_output_norms(HeadAttention& head) {
  head.output_norm.resize(static_cast<std::size_t>(head.output.rows()));
  for (int row = 0; row < head.output.rows(); ++row) {
    head.output_norm[row] = head.output.row(row).norm();
  }
}

void summarise_weights(int first_step, HeadAttention& head) {
  const auto num_steps = static_cast<int>(head.weight.rows());
  const auto width = static_cast<int>(head.weight.cols());
  arrange_by_token(head.weight.data(), num_steps, width, head.weight_by_token);
  head.weight_norm.resize(num_steps);
  head.num_pivotal.resize(num_steps);
  head.pivotal.resize(num_steps);
  for (int row = 0; row < num_steps; ++row) {
    head.weight_norm[row] = head.weight.row(row).norm();
    head.pivotal[row].resize((width + 63) / 64);
    const float threshold = pivotal_threshold(head.weight_sum[row], first_step + row);
    head.num_pivotal[row] =
        mark_above({head.weight.row(row).data(), static_cast<std::size_t>(width)}, threshold,
                   head.pivotal[row].data());
  }
}

double sink_weight(const Unit& unit, int head, double offset) {
  return unit.sink_logit.empty() ? 0 : std::exp(double{unit.sink_logit[head]} - offset);
}

bool is_visible(const Unit& unit, int step, int token) {
  if (token > step || token < first_visible(unit, step)) return false;
  return !unit.selected || unit.selected->contains(step, token);
}

int num_visible(const Unit& unit, int step) {
  const int begin = first_visible(unit, step);
  if (!unit.selected) return step + 1 - begin;
  const auto tokens = unit.selected->at(step);
  return static_cast<int>(tokens.end() - std::ranges::lower_bound(tokens, begin));
}

std::vector<std::int32_t> visible_tokens(const Unit& unit, int step) {
  const int begin = first_visible(unit, step);
  if (unit.selected) {
    const auto tokens = unit.selected->at(step);
    return {std::ranges::lower_bound(tokens, begin), tokens.end()};
  }
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(step + 1 - begin));
  std::iota(tokens.begin(), tokens.end(), begin);
  return tokens;
}

int first_visible(const Unit& unit, int step) {
  const int in_window = unit.sliding_window ? std::max(0, step + 1 - *unit.sliding_window) : 0;
  if (!unit.attention_chunk) return in_window;
  return std::max(in_window, step / *unit.attention_chunk * *unit.attention_chunk);
}

}  // namespace kvsim
