#include "tests/support/stepwise_reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "tests/support/compare.h"

namespace kvsim::test_support {
namespace {

constexpr double kSinglePrecision = 1e-5;

std::size_t size(int number) { return static_cast<std::size_t>(number); }

double mean(const ReferenceAttention::Rows& rows) {
  double sum = 0;
  double count = 0;
  for (const auto& row : rows) {
    sum = std::accumulate(row.begin(), row.end(), sum);
    count += static_cast<double>(row.size());
  }
  return sum / count;
}

}  // namespace

ReferenceRecord::ReferenceRecord(const ReferenceUnit& unit, Mode mode)
    : evicted_after(size(unit.unit.num_tokens()), unit.unit.num_tokens()),
      reference_(unit),
      first_measured_(mode == Mode::stream ? 0 : unit.unit.prompt_length),
      recall_(unit.heads.size()),
      error_(unit.heads.size()) {}

void ReferenceRecord::measure(int head, int t, const std::vector<int>& tokens,
                              const std::vector<double>& output) {
  if (!is_measured(t)) return;
  const ReferenceAttention& full = reference_.heads[size(head)];
  const auto is_pivotal = [&](double a) { return a > 1.0 / (t + 1); };
  const std::vector<double>& row = full.full[size(t)];
  misses_ += std::count_if(row.begin(), row.end(), is_pivotal);
  double loss = 0;
  for (int j = 0; j <= t; ++j) {
    const bool is_attended = std::find(tokens.begin(), tokens.end(), j) != tokens.end();
    if (is_attended) misses_ -= is_pivotal(row[size(j)]);
    if (!is_attended) loss += row[size(j)];
  }
  std::vector<double> difference = full.output[size(t)];
  for (std::size_t c = 0; c < difference.size(); ++c) difference[c] -= output[c];
  recall_[size(head)].push_back(1 - loss);
  error_[size(head)].push_back(norm(difference) / norm(full.output[size(t)]));
}

std::string ReferenceRecord::difference(const std::string& what, const Matrix& found,
                                        const ReferenceAttention::Rows& expected) const {
  for (std::size_t head = 0; head < expected.size(); ++head) {
    for (std::size_t i = 0; i < expected[head].size(); ++i) {
      const float x = found(static_cast<Eigen::Index>(head), static_cast<Eigen::Index>(i));
      const double y = expected[head][i];
      if (std::isnan(y) ? std::isfinite(x) : close(x, y, kSinglePrecision, kSinglePrecision)) {
        continue;
      }
      return fmt::format("{} of head {} at step {}: {}, expected {}\n", what, head,
                         i + size(first_measured_), x, y);
    }
  }
  return "";
}

std::string ReferenceRecord::differences(const Outcome& outcome) const {
  const Trajectory& trajectory = outcome.trajectory;
  if (trajectory.evicted_after.size() != evicted_after.size()) return "evicted_after of wrong size";
  std::string text;
  const auto [left, expected] = std::mismatch(
      trajectory.evicted_after.begin(), trajectory.evicted_after.end(), evicted_after.begin());
  if (expected != evicted_after.end()) {
    text += fmt::format("token {} left after step {}, expected {}\n",
                        expected - evicted_after.begin(), *left, *expected);
  }
  text += difference("recall", trajectory.attention_recall, recall_);
  text += difference("error", trajectory.output_error, error_);
  const Result& result = outcome.result;
  if (!close(*result.attention_recall, mean(recall_), kSinglePrecision)) text += "mean recall\n";
  const double error = mean(error_);
  if (!std::isnan(error) &&
      !close(*result.output_error_mean, error, kSinglePrecision, kSinglePrecision)) {
    text += "mean error\n";
  }
  if (result.token_misses != misses_) text += "misses\n";
  const int n = reference_.unit.num_tokens();
  if (result.steps != n - first_measured_) text += "steps\n";
  if (result.evictions != n - std::count(evicted_after.begin(), evicted_after.end(), n)) {
    text += "evictions\n";
  }
  return text;
}

Unit quantised(Unit unit, const Quantization& quantization) {
  const auto round_rows = [&](Matrix& matrix, int element_bytes) {
    for (int row = 0; row < matrix.rows(); ++row) {
      quantization.round({matrix.row(row).data(), static_cast<std::size_t>(matrix.cols())},
                         element_bytes);
    }
  };
  round_rows(unit.key, unit.key_bytes);
  round_rows(unit.value, unit.value_bytes);
  return unit;
}

std::vector<double> cached_value(const Unit& unit, const Unit& stored, int t,
                                 const std::vector<int>& tokens,
                                 const std::vector<double>& weight) {
  std::vector<double> sum(size(static_cast<int>(unit.value.cols())));
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const Unit& source = tokens[i] == t ? unit : stored;
    const std::vector<double> value = weighted_value(source, {tokens[i]}, {weight[i]});
    for (std::size_t c = 0; c < sum.size(); ++c) sum[c] += value[c];
  }
  return sum;
}

int first_to_leave(const std::map<int, double>& scores, int t, const Evictions& other,
                   int& followed) {
  const auto lowest = std::min_element(scores.begin(), scores.end(), [](auto& a, auto& b) {
                        return a.second < b.second;
                      })->first;
  if (other[size(lowest)] == t) return lowest;
  const double score = scores.at(lowest);
  for (const auto& [token, its_score] : scores) {
    if (other[size(token)] != t || its_score == score) continue;
    if (!close(its_score, score, kSinglePrecision, std::numeric_limits<float>::min())) continue;
    ++followed;
    return token;
  }
  return lowest;
}

SteppedReplay replay_steps(const ReferenceUnit& unit, const Keeping& keeping, const Attend& attend,
                           const Evictions& other) {
  SteppedReplay replay{ReferenceRecord(unit, keeping.mode)};
  std::vector<int> tokens;
  std::vector<double> scores(size(unit.unit.num_tokens()));
  const int first = std::min(keeping.first, keeping.budget);
  const int newest = std::min(keeping.newest, keeping.budget - first);
  for (int t = 0; t < unit.unit.num_tokens(); ++t) {
    tokens.push_back(t);
    if (!keeping.by_attention) scores[size(t)] = t;
    for (int head = 0; head < unit.unit.group_size(); ++head) {
      const HeadStep step = attend(head, t, tokens);
      replay.record.measure(head, t, tokens, step.output);
      for (std::size_t i = 0; i < tokens.size() && keeping.by_attention; ++i) {
        scores[size(tokens[i])] += step.attention[i] / unit.unit.group_size();
      }
    }
    while (replay.record.may_evict(t) && static_cast<int>(tokens.size()) > keeping.budget) {
      std::map<int, double> candidates;
      for (auto j = tokens.begin() + first; j < tokens.end() - newest; ++j) {
        candidates[*j] = scores[size(*j)];
      }
      const int victim = first_to_leave(candidates, t, other, replay.followed);
      std::erase(tokens, victim);
      replay.record.evicted_after[size(victim)] = t;
    }
  }
  return replay;
}

}  // namespace kvsim::test_support
