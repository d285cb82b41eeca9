#include "oracle/step_losses.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/attention/attention_blocks.h"
#include "sim/base/errors.h"
#include "sim/replay/answer_steps.h"

namespace kvsim {
namespace {

/// v_j in double precision, as v_j - o_t is often small compared with them.
class Values {
 public:
  explicit Values(const Unit& unit)
      : value_(unit.value.cast<double>()), square_(value_.rowwise().squaredNorm()) {}

  /// Per token 0 .. `step`: its value times `direction`.
  Eigen::VectorXd along(const Eigen::VectorXd& direction, int step) const {
    return value_.topRows(step + 1) * direction;
  }

  /// Per token 0 .. `step`: |v_j|².
  auto squares(int step) const { return square_.head(step + 1); }

 private:
  MatrixDouble value_;
  Eigen::VectorXd square_;
};

// Both add to `sum`, for j = 0 .. step, what the query head loses at this step, which is row `row`
// of its block, without token j.

void add_distances(const Values& values, const HeadAttention& head, double share, int row, int step,
                   std::span<float> sum) {
  const Eigen::VectorXd output = head.output.row(row).transpose();
  const Eigen::VectorXd along = values.along(output, step);
  const auto squares = values.squares(step);
  const double square = output.squaredNorm();
  const float* weight = head.weight.row(row).data();
  for (int token = 0; token <= step; ++token) {
    const double distance = std::sqrt(std::max(0.0, squares[token] - 2 * along[token] + square));
    sum[token] += static_cast<float>(weight[token] / head.weight_sum[row] * distance * share);
  }
}

void add_predicted(const Values& values, const HeadAttention& head, const Matrix& gradient,
                   double share, int row, int step, std::span<float> sum) {
  const Eigen::VectorXd direction = gradient.row(step).transpose().cast<double>();
  const Eigen::VectorXd along = values.along(direction, step);
  const double of_output = head.output.row(row).dot(direction);
  const float* weight = head.weight.row(row).data();
  for (int token = 0; token <= step; ++token) {
    const double change = weight[token] / head.weight_sum[row] * (along[token] - of_output);
    sum[token] += static_cast<float>(change * change / 2 * share);
  }
}

/// Fills in the rows of these steps.
void add_losses(const Future& future, Cost cost, const std::vector<int>& steps, StepRows& rows) {
  if (steps.empty()) return;
  const Unit& unit = future.unit();
  if (cost == Cost::predicted && unit.output_score_grad.empty()) {
    throw DataError(fmt::format(
        "sequence {} layer {}: expected the gradients that cost=predicted needs, found none",
        unit.name.sequence, unit.name.layer));
  }
  const Values values(unit);
  const std::vector<std::vector<Matrix>>& gradients = unit.output_score_grad;
  auto next = steps.begin();
  for_each_block(unit, steps.back() + 1, future.backend(), [&](const AttentionBlock& block) {
    future.check_interrupted();
    for (; next != steps.end() && *next < block.first_step + block.num_steps; ++next) {
      const int row = *next - block.first_step;
      for (std::size_t h = 0; h < block.heads.size(); ++h) {
        const HeadAttention& head = block.heads[h];
        if (cost == Cost::value) {
          add_distances(values, head, 1.0 / unit.group_size(), row, *next, rows.row(*next));
          continue;
        }
        for (const std::vector<Matrix>& sample : gradients) {
          const double share = 1.0 / static_cast<double>(gradients.size());
          add_predicted(values, head, sample[h], share, row, *next, rows.row(*next));
        }
      }
    }
  });
}

void copy_rows(const StepRows& from, const std::vector<int>& steps, StepRows& rows) {
  for (const int step : steps) {
    const std::span<const float> row = from.row(step);
    std::copy(row.begin(), row.end(), rows.row(step).begin());
  }
}

std::vector<int> steps_that_count(const Future& future, bool answers_only) {
  std::vector<int> steps;
  if (answers_only) {
    steps = answer_steps(future.unit().spans, future.first_measured());
    if (!steps.empty()) return steps;
    throw DataError(fmt::format(
        "sequence {}: expected a span labelled answer, of which a measured step predicts a token, "
        "found none; leave weight=spans out",
        future.unit().name.sequence));
  }
  for (int step = future.first_measured(); step < future.num_tokens(); ++step) {
    steps.push_back(step);
  }
  return steps;
}

}  // namespace

std::vector<Param> loss_params() {
  return {Param::choice("cost", {"mass", "value", "predicted"},
                        "of a missing token: attention, times distance of value and output, nats"),
          Param::choice("weight", {"uniform", "spans"},
                        "which steps count: all, or those that predict answers")};
}

Loss loss_of(const Params& params) {
  const std::string& cost = params.choice("cost");
  return {.cost = cost == "mass"    ? Cost::mass
                  : cost == "value" ? Cost::value
                                    : Cost::predicted,
          .answers_only = params.choice("weight") == "spans"};
}

TraceNeeds loss_needs(const Params& params) {
  const Loss loss = loss_of(params);
  return {.answer_spans = loss.answers_only, .output_score_grad = loss.cost == Cost::predicted};
}

double sum_of_measured(const StepRows& rows) {
  double sum = 0;
  for (int step = rows.first_measured(); step < rows.num_tokens(); ++step) {
    poll_interrupt();
    for (const float number : rows.row(step)) sum += number;
  }
  return sum;
}

StepLosses::StepLosses(const Future& future, const Loss& loss) : loss_(loss) {
  const std::vector<int> steps = steps_that_count(future, loss.answers_only);
  num_steps_ = static_cast<int>(steps.size());
  if (loss.bounds_recall()) {
    attention_ = &future.attention();
    return;
  }
  own_.emplace(future);
  if (loss.cost == Cost::mass) {
    copy_rows(future.attention(), steps, *own_);
  } else {
    add_losses(future, loss.cost, steps, *own_);
  }
}

Proof StepLosses::proof(double loss, double bound, bool of_every_policy) const {
  Proof proof{.loss = loss / num_steps_, .loss_bound = bound / num_steps_};
  if (of_every_policy && loss_.bounds_recall()) {
    proof.recall_bound = (sum_of_measured(rows()) - bound) / num_steps_;
  }
  return proof;
}

}  // namespace kvsim
