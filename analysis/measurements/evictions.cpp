// The tokens that policies evict: their age, and the attention lost by each eviction.

#include <algorithm>
#include <limits>
#include <numeric>

#include "analysis/policy_runs.h"
#include "analysis/row_analysis.h"
#include "sim/kernels/percentile.h"

namespace kvsim {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Eviction {
  int token;
  int step;         // it left after this step
  double received;  // attention up to this step, that of its own step included
  double lost;      // attention of later steps
  double regret;    // lost, less the future attention of the kept token that has least; at least 0
};

/// Lists the evictions of all runs with the attention of each query head. A token's future
/// attention is its total less what it has received.
class Evictions : public RowAnalysis {
 public:
  explicit Evictions(const Subject& subject)
      : RowAnalysis(subject),
        received_(unit().query.size(), std::vector<double>(unit().num_tokens(), 0)),
        found_(subject.runs.size(), std::vector<std::vector<Eviction>>(unit().query.size())) {}

 protected:
  const std::vector<Eviction>& found(std::size_t run, int head) const { return found_[run][head]; }

 private:
  void add_row(const AttentionRow& row) override {
    std::vector<double>& received = received_[row.head];
    for (int j = row.first_visible; j <= row.step; ++j) received[j] += row.attention(j);
    for (std::size_t run = 0; run < found_.size(); ++run) {
      find(subject().runs[run], row.head, row.step, found_[run][row.head]);
    }
  }

  void find(const PolicyRun& run, int head, int step, std::vector<Eviction>& found) const {
    const std::vector<std::int32_t>& evicted_after = run.trajectory.evicted_after;
    const auto leaves = [&](int token) { return evicted_after[token] == step; };
    bool any = false;
    for (int j = 0; j <= step && !any; ++j) any = leaves(j);
    if (!any) return;
    double cheapest = kInfinity;
    for (int j = 0; j <= step; ++j) {
      if (is_kept(run, j, step)) cheapest = std::min(cheapest, future_attention(head, j));
    }
    for (int j = 0; j <= step; ++j) {
      if (!leaves(j)) continue;
      const double lost = future_attention(head, j);
      found.push_back({j, step, received_[head][j], lost, std::max(0.0, lost - cheapest)});
    }
  }

  double future_attention(int head, int token) const {
    return std::max(0.0, subject().total_attention[head][token] - received_[head][token]);
  }

  std::vector<std::vector<double>> received_;              // per head and token
  std::vector<std::vector<std::vector<Eviction>>> found_;  // per run and head
};

class EvictionList final : public Evictions {
 public:
  EvictionList(const Params&, const Subject& subject) : Evictions(subject) {}

  std::vector<AnalysisRow> finish() override {
    std::vector<AnalysisRow> rows;
    for (std::size_t run = 0; run < subject().runs.size(); ++run) {
      for (int head = 0; head < unit().group_size(); ++head) {
        for (const Eviction& eviction : found(run, head)) {
          rows.push_back(
              {head, with_run_values(subject(), subject().runs[run],
                                     {std::int64_t{eviction.token}, std::int64_t{eviction.step},
                                      std::int64_t{eviction.step - eviction.token},
                                      eviction.received, eviction.lost, eviction.regret})});
        }
      }
    }
    return rows;
  }
};

class Anatomy final : public Evictions {
 public:
  Anatomy(const Params&, const Subject& subject) : Evictions(subject) {}

  std::vector<AnalysisRow> finish() override {
    std::vector<AnalysisRow> rows;
    for (std::size_t run = 0; run < subject().runs.size(); ++run) {
      for (int head = 0; head < unit().group_size(); ++head) {
        rows.push_back(
            {head, with_run_values(subject(), subject().runs[run], summary_of(found(run, head)))});
      }
    }
    return rows;
  }

 private:
  static std::vector<Value> summary_of(const std::vector<Eviction>& evictions) {
    const auto count = static_cast<std::int64_t>(evictions.size());
    if (evictions.empty()) {
      std::vector<Value> none(9, std::monostate());
      none.front() = count;
      return none;
    }
    std::vector<double> ages;
    double received = 0;
    double lost = 0;
    double regret = 0;
    std::int64_t best = 0;
    for (const Eviction& eviction : evictions) {
      ages.push_back(eviction.step - eviction.token);
      received += eviction.received;
      lost += eviction.lost;
      regret += eviction.regret;
      best += eviction.regret == 0;
    }
    const auto n = static_cast<double>(count);
    const double mean_age = std::accumulate(ages.begin(), ages.end(), 0.0) / n;
    std::sort(ages.begin(), ages.end());
    return {count,
            mean_age,
            percentile(ages, 0.1),
            percentile(ages, 0.5),
            percentile(ages, 0.9),
            received / n,
            lost / n,
            regret / n,
            static_cast<double>(best) / n};
  }
};

const char* const kEvictionsSource =
    "Scissorhands section 4.1 and H2O section 3.2 reason about it; definitions are kvsim's";
const char* const kEvictionsNotes =
    "attention is the full attention a[t,j] of the query head; it needs the future, and so a pass "
    "of its own";

/// What is found, and sums of the attention, those of later steps twice.
AnalysisMemory memory_of_found(const Params&, const AnalysisSize& size) {
  return {
      .rows = 0,
      .bytes = size.group * (size.evictions * sizeof(Eviction) + 3 * size.tokens * sizeof(double))};
}

AnalysisMemory memory_of_list(const Params& params, const AnalysisSize& size) {
  return {.rows = size.group * size.evictions, .bytes = memory_of_found(params, size).bytes};
}

}  // namespace

AnalysisInfo evictions_analysis() {
  return {.name = "evictions",
          .shows = "per query head, replay and evicted token: what it had and what was lost",
          .source = kEvictionsSource,
          .notes = kEvictionsNotes,
          .columns = with_run_columns(
              {integer_column("token", "the token that left, 0-based").key(),
               integer_column("evicted_after", "the step after which it left"),
               integer_column("age", "steps since it arrived"),
               real_column("received",
                           "attention it had received until then, its own step "
                           "included, in steps"),
               real_column("future_mass",
                           "attention that later steps pay to it, in steps: what "
                           "the eviction lost"),
               real_column("regret",
                           "of that, what exchanging it for the kept token with the "
                           "least attention to come would have saved; 0: no better "
                           "victim was there")}),
          .summary = {"age", "received", "future_mass", "regret"},
          .summary_by = {"policy", "budget"},
          .looks_ahead = true,
          .accepts = evicts_exactly,
          .memory = memory_of_list,
          .make = make_analysis<EvictionList>};
}

AnalysisInfo anatomy_analysis() {
  return {
      .name = "anatomy",
      .shows = "per query head and replay: age and loss of what was evicted, in short",
      .source = kEvictionsSource,
      .notes = kEvictionsNotes,
      .columns = with_run_columns(
          {integer_column("evictions", "tokens that left"),
           real_column("age_mean", "mean over evictions of the steps since a token arrived"),
           real_column("age_p10", "10th percentile of the same"), real_column("age_p50", "median"),
           real_column("age_p90", "90th percentile"),
           real_column("received_mean", "mean attention an evicted token had received, in steps"),
           real_column("future_mass_mean",
                       "mean attention that later steps pay to an evicted token, in steps"),
           real_column("regret_mean", "mean regret of an eviction (see evictions), in steps"),
           real_column("best_share", "share of evictions without regret; 0..1")}),
      .summary = {"evictions", "age_p50", "future_mass_mean", "regret_mean", "best_share"},
      .summary_by = {"policy", "budget"},
      .looks_ahead = true,
      .accepts = evicts_exactly,
      .memory = memory_of_found,
      .make = make_analysis<Anatomy>};
}

}  // namespace kvsim
