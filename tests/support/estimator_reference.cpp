#include "tests/support/estimator_reference.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "traces/unit_seed.h"

namespace kvsim::test_support {
namespace {

std::size_t as_size(int number) { return static_cast<std::size_t>(number); }

std::span<const float> row_of(const Matrix& matrix, int row) {
  return {matrix.row(row).data(), static_cast<std::size_t>(matrix.cols())};
}

}  // namespace

EstimatorReference::EstimatorReference(const Unit& unit, const Estimation& estimation)
    : unit_(unit),
      budget_(estimation.budget),
      stored_unit_(estimation.stored ? quantised(unit, *estimation.stored) : unit),
      recorded_(unit_),
      stored_(stored_unit_),
      first_(std::min(estimation.first, budget_ / 2)),
      newest_(std::min(estimation.newest, budget_ / 2 - first_)),
      room_(budget_ - 2 * (first_ + newest_)),
      estimator_(
          Spec(estimation.spec)
              .make_estimator({.budget = room_, .seed = unit_seed(kEstimationSeed, unit.name)})),
      record(recorded_, estimation.mode) {
  for (int t = 0; t < unit.num_tokens(); ++t) run_step(t);
  int first_eviction = 0;
  while (!record.may_evict(first_eviction)) ++first_eviction;
  for (std::int32_t& left : record.evicted_after) left = std::max(left, first_eviction);
}

void EstimatorReference::run_step(int t) {
  const std::vector<Entry> entries = entries_at(t);
  std::vector<int> tokens;
  for (const Entry& entry : entries) {
    if (entry.has_value) tokens.push_back(entry.token);
  }
  for (int head = 0; head < unit_.group_size(); ++head) {
    record.measure(head, t, tokens, estimate(head, t, entries));
  }
  note_what_stays(t, entries);
}

// The first and the newest tokens unchanged, and the estimator's entries for those between. Without
// room for one token, at least the step's own token.
std::vector<Entry> EstimatorReference::entries_at(int t) {
  const bool has_room = room_ >= 2;
  const int leaving = t - newest_;
  std::vector<Entry> entries;
  for (int j = 0; j <= t; ++j) {
    if (j < first_ || j > leaving || (j == t && !has_room)) entries.push_back({j, true, 1, 1});
  }
  if (leaving < first_ || !has_room) return entries;
  // A token is unquantised at its own step and in a prompt, which attends in full.
  const bool is_stored = leaving != t && record.is_measured(t);
  const Unit& source = is_stored ? stored_unit_ : unit_;
  estimator_->update({leaving, row_of(source.key, leaving), row_of(source.value, leaving)});
  entries.insert(entries.end(), estimator_->entries().begin(), estimator_->entries().end());
  return entries;
}

// sum(w e^l v) / (e^s + sum(u e^l)), s being the sink's logit; NaN where the denominator is 0.
std::vector<double> EstimatorReference::estimate(int head, int t,
                                                 const std::vector<Entry>& entries) const {
  std::vector<double> logit = stored_.heads[as_size(head)].logit[as_size(t)];
  logit[as_size(t)] = recorded_.heads[as_size(head)].logit[as_size(t)][as_size(t)];
  const double sink = stored_.heads[as_size(head)].sink;
  double largest = std::max(sink, std::numeric_limits<double>::lowest());
  for (const Entry& entry : entries) {
    if (entry.denominator > 0) largest = std::max(largest, logit[as_size(entry.token)]);
  }
  std::vector<int> tokens;
  std::vector<double> weight;
  double denominator = std::exp(sink - largest);
  for (const Entry& entry : entries) {
    const double exponential = std::exp(logit[as_size(entry.token)] - largest);
    if (entry.denominator > 0) denominator += entry.denominator * exponential;
    if (!entry.has_value) continue;
    tokens.push_back(entry.token);
    weight.push_back(entry.numerator * exponential);
  }
  std::vector<double> output = cached_value(unit_, stored_unit_, t, tokens, weight);
  const double undefined = std::numeric_limits<double>::quiet_NaN();
  for (double& x : output) x = denominator > 0 ? x / denominator : undefined;
  return output;
}

void EstimatorReference::note_what_stays(int t, const std::vector<Entry>& entries) {
  int vectors = 0;
  for (const Entry& entry : entries) vectors += entry.has_value ? 2 : 1;
  const bool own_stays = vectors <= budget_;
  if (!own_stays) vectors -= 2;
  if (record.may_evict(t)) peak_tokens = std::max(peak_tokens, vectors);
  const int n = unit_.num_tokens();
  record.evicted_after[as_size(t)] = t;
  for (const Entry& entry : entries) {
    const bool stays = t + 1 == n && (entry.token != t || own_stays);
    if (entry.has_value) record.evicted_after[as_size(entry.token)] = stays ? n : t;
  }
}

}  // namespace kvsim::test_support
