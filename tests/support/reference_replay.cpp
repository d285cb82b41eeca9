#include "tests/support/reference_replay.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "tests/support/page_choice.h"

namespace kvsim::test_support {
namespace {

double interpolated(std::vector<double> values, double rank) {
  std::sort(values.begin(), values.end());
  const double position = rank * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(std::floor(position));
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (position - std::floor(position)) * (values[above] - values[below]);
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

class Replay {
 public:
  Replay(const ReferenceUnit& unit, const ReferenceSetting& setting,
         const std::vector<std::int32_t>& other)
      : shared_(unit),
        unit_(unit.unit),
        setting_(setting),
        other_(other),
        n_(unit_.num_tokens()),
        first_measured_(setting.mode == Mode::stream ? 0 : unit_.prompt_length),
        sums_(size(n_)) {
    Trajectory& trajectory = made_.outcome.trajectory;
    trajectory.evicted_after.assign(size(n_), n_);
    trajectory.attention_recall.resize(unit_.group_size(), n_ - first_measured_);
    trajectory.output_error.resize(unit_.group_size(), n_ - first_measured_);
  }

  ReferenceOutcome run() && {
    for (int t = 0; t < n_; ++t) {
      attended_.insert(t);
      attend(t);
      if (t >= first_measured_ - 1) evict(t);
      const std::size_t resident = setting_.policy == "topk" ? size(t + 1) : attended_.size();
      if (t >= first_measured_ - 1) peak_ = std::max(peak_, resident);
      if (t >= first_measured_) footprint_ += resident;
    }
    summarize();
    return std::move(made_);
  }

 private:
  static std::size_t size(int number) { return static_cast<std::size_t>(number); }

  // Steps 1 and 2 of the replay, for all query heads, and the update of the policy's scores.
  void attend(int t) {
    if (setting_.policy == "topk") select(t);
    const std::vector<int> tokens(attended_.begin(), attended_.end());
    const double share = 1.0 / unit_.group_size();
    seen_.emplace_back(size(n_), 0.0);
    num_attended_.push_back(tokens.size());
    for (int h = 0; h < unit_.group_size(); ++h) {
      const ReferenceAttention& head = shared_.heads[size(h)];
      const std::vector<double> cached = softmax(head.logit[size(t)], tokens, head.sink);
      for (std::size_t i = 0; i < tokens.size(); ++i) {
        const std::size_t j = size(tokens[i]);
        const double attention = setting_.score == "full" ? head.full[size(t)][j] : cached[i];
        seen_.back()[j] += share * attention;
        sums_[j] += share * attention;
      }
      if (t >= first_measured_) measure(h, t, weighted_value(unit_, tokens, cached));
    }
  }

  // The tokens that the step attends to: itself and the `budget` older ones with the highest group
  // mean of a.
  void select(int t) {
    std::vector<std::pair<double, int>> older;
    for (int j = 0; j < t; ++j) {
      double attention = 0;
      for (const ReferenceAttention& head : shared_.heads) attention += head.full[size(t)][size(j)];
      older.emplace_back(attention, j);
    }
    std::sort(older.rbegin(), older.rend());
    older.resize(std::min(size(num_selected(t)), older.size()));
    attended_ = {t};
    for (const auto& [attention, j] : older) attended_.insert(j);
  }

  // As many as a cache of pages holds: it lacks whole pages.
  int num_selected(int t) const {
    int most = most_selected(t);
    while (most < t && (t - most) % setting_.paging.size != 0) --most;
    return most;
  }

  int most_selected(int t) const {
    if (t < first_measured_) return t;
    if (setting_.eviction_interval == kNeverEvict) return setting_.budget + t - first_measured_;
    return setting_.budget + setting_.eviction_interval - 1;
  }

  void measure(int h, int t, const std::vector<double>& cached_output) {
    const ReferenceAttention& head = shared_.heads[size(h)];
    double loss = 0;
    for (int j = 0; j <= t; ++j) {
      const bool missing = !attended_.contains(j);
      const double a = head.full[size(t)][size(j)];
      const bool pivotal = a > 1.0 / (t + 1);
      if (missing) loss += a;
      *made_.outcome.result.token_accesses += pivotal;
      *made_.outcome.result.token_misses += pivotal && missing;
    }
    std::vector<double> difference = head.output[size(t)];
    for (std::size_t c = 0; c < difference.size(); ++c) difference[c] -= cached_output[c];
    const double length = norm(head.output[size(t)]);
    losses_.push_back(loss);
    errors_.push_back(norm(difference) / length);
    squares_.push_back(norm(difference) * norm(difference));
    predicted_kl_ += predicted_kl(h, t, difference);
    bounds_.push_back(2 * shared_.longest_value[size(t)] * loss / length);
    const int column = t - first_measured_;
    Trajectory& trajectory = made_.outcome.trajectory;
    trajectory.attention_recall(h, column) = static_cast<float>(1 - loss);
    trajectory.output_error(h, column) = static_cast<float>(errors_.back());
  }

  // 1/2 mean over samples of (g . delta)^2.
  double predicted_kl(int h, int t, const std::vector<double>& difference) const {
    double nats = 0;
    for (const std::vector<Matrix>& sample : unit_.output_score_grad) {
      double product = 0;
      for (std::size_t c = 0; c < difference.size(); ++c) {
        product += sample[size(h)](t, static_cast<int>(c)) * difference[c];
      }
      nats += product * product / 2 / static_cast<double>(unit_.output_score_grad.size());
    }
    return nats;
  }

  void evict(int t) {
    if (setting_.policy == "full" || setting_.policy == "topk") return;
    if (!is_time_to_evict(t)) return;
    if (setting_.paging.size > 1) return evict_pages(t);
    while (static_cast<int>(attended_.size()) > setting_.budget) {
      for (int i = 0; i < setting_.drop && !candidates().empty(); ++i) {
        const int victim = setting_.policy == "random" ? others_victim(t) : choose(t);
        attended_.erase(victim);
        made_.outcome.trajectory.evicted_after[size(victim)] = t;
        ++made_.outcome.result.evictions;
      }
    }
  }

  void evict_pages(int t) {
    PageChoice choice{.paging = setting_.paging,
                      .budget = setting_.budget,
                      .drop = setting_.drop,
                      .protected_first = setting_.policy == "sink" ? setting_.sinks : 0,
                      .attended = attended_,
                      .unprotected = candidates()};
    if (setting_.policy != "random") {
      for (const int j : attended_) choice.score[j] = score(j, t);
    }
    for (const int j : choice.leaving(t, other_, made_.followed)) {
      attended_.erase(j);
      made_.outcome.trajectory.evicted_after[size(j)] = t;
      ++made_.outcome.result.evictions;
    }
  }

  bool is_time_to_evict(int t) const {
    if (t == first_measured_ - 1) return true;
    if (setting_.eviction_interval == kNeverEvict) return false;
    return static_cast<int>(attended_.size()) > setting_.budget + setting_.eviction_interval - 1;
  }

  int choose(int t) {
    int victim = -1;
    for (const int j : candidates()) {
      if (victim < 0 || score(j, t) < score(victim, t)) victim = j;
    }
    const int other = others_victim(t);
    if (other < 0 || other == victim || !candidates().contains(other)) return victim;
    if (score(other, t) == score(victim, t) ||
        !indistinguishable(score(other, t), score(victim, t))) {
      return victim;
    }
    ++made_.followed;
    return other;
  }

  // A token that the other implementation evicts at this step and the reference still has.
  int others_victim(int t) const {
    for (const int j : attended_) {
      if (other_[size(j)] == t) return j;
    }
    return -1;
  }

  std::set<int> candidates() const {
    std::set<int> candidates = attended_;
    if (setting_.policy == "sink") {
      for (int j = 0; j < std::min(setting_.sinks, setting_.budget); ++j) candidates.erase(j);
    }
    if (setting_.policy == "h2o" || setting_.policy == "scissorhands") {
      const int recent = std::min(setting_.recent, setting_.budget);
      for (int i = 0; i < recent && !candidates.empty(); ++i) {
        candidates.erase(std::prev(candidates.end()));
      }
    }
    return candidates;
  }

  double score(int j, int t) const {
    if (setting_.policy == "tova") return seen_[size(t)][size(j)];
    if (setting_.policy == "lru") return last_access(j, t);
    if (setting_.policy == "lfu") return num_accesses(j, t);
    if (setting_.policy == "scissorhands") return -num_unimportant(j, t);
    if (setting_.policy == "h2o") {
      return setting_.score == "mean" ? sums_[size(j)] / (t - j + 1) : sums_[size(j)];
    }
    return j;  // window and sink: the oldest candidate goes
  }

  bool is_access(int j, int s) const {
    const double sharers =
        setting_.score == "full" ? s + 1.0 : static_cast<double>(num_attended_[size(s)]);
    return s == j || seen_[size(s)][size(j)] > 1 / sharers;
  }

  int last_access(int j, int t) const {
    while (!is_access(j, t)) --t;
    return t;
  }

  int num_accesses(int j, int t) const {
    int count = 0;
    for (int s = j; s <= t; ++s) count += is_access(j, s);
    return count;
  }

  int num_unimportant(int j, int t) const {
    int count = 0;
    for (int s = std::max(j, t - setting_.history + 1); s <= t; ++s) {
      count += seen_[size(s)][size(j)] < 1.0 / (s + 1);
    }
    return count;
  }

  void summarize() {
    Result& result = made_.outcome.result;
    result.steps = n_ - first_measured_;
    result.attention_loss = mean(losses_);
    result.attention_recall = 1 - *result.attention_loss;
    if (result.token_accesses > 0) {
      result.miss_rate =
          static_cast<double>(*result.token_misses) / static_cast<double>(*result.token_accesses);
    }
    result.output_error_mean = mean(errors_);
    result.output_error_p50 = interpolated(errors_, 0.5);
    result.output_error_p95 = interpolated(errors_, 0.95);
    result.output_error_max = interpolated(errors_, 1);
    result.output_error_sq = mean(squares_);
    if (!unit_.output_score_grad.empty()) {
      result.predicted_kl = predicted_kl_ / static_cast<double>(result.steps);
    }
    result.bound_mean = mean(bounds_);
    result.peak_tokens = static_cast<std::int64_t>(peak_);
    result.kv_footprint = static_cast<std::int64_t>(footprint_);
    result.cache_bytes = result.peak_tokens * (unit_.key.cols() * unit_.key_bytes +
                                               unit_.value.cols() * unit_.value_bytes);
  }

  const ReferenceUnit& shared_;
  const Unit& unit_;
  const ReferenceSetting& setting_;
  const std::vector<std::int32_t>& other_;
  int n_;
  int first_measured_;
  std::set<int> attended_;
  std::vector<std::vector<double>> seen_;  // [t][j]: group mean of p (score=full: of a)
  std::vector<double> sums_;               // the same summed over steps
  std::vector<std::size_t> num_attended_;  // per step
  std::size_t peak_ = 0, footprint_ = 0;
  std::vector<double> losses_, errors_, squares_, bounds_;
  double predicted_kl_ = 0;
  ReferenceOutcome made_;
};

}  // namespace

ReferenceOutcome reference_replay(const ReferenceUnit& unit, const ReferenceSetting& setting,
                                  const std::vector<std::int32_t>& evicted_after) {
  return Replay(unit, setting, evicted_after).run();
}

}  // namespace kvsim::test_support
