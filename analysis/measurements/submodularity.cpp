// Submodularity on recorded attention (H2O Definitions D.1 to D.4 and D.16, section D.7): does a
// token add less to a larger set?
//
// For sets S inside T of the tokens that a step sees, and a token x outside T, a submodular f has
// f(S + x) - f(S) >= f(T + x) - f(T), and a monotone one f(T + x) >= f(T). For the paper's f, h of
// a sum of scores (Algorithm 2, Remark D.14), both follow from h. What a cache is there for is the
// output of its head, and nothing says so of that: its two functions are measured along with h.

#include <array>
#include <cmath>
#include <numeric>
#include <optional>

#include "analysis/row_analysis.h"
#include "sim/base/random_bits.h"
#include "traces/unit_seed.h"

namespace kvsim {
namespace {

constexpr std::array kFunctions = {"identity", "sqrt", "log1p", "output", "output-fixed"};

/// What a set of tokens adds up to.
struct TokenSums {
  double score = 0;
  double weight = 0;               // with that of a learned sink
  Eigen::VectorXd weighted_value;  // sum of weight times value
};

/// The values of the functions for one set.
using SetValues = std::array<double, kFunctions.size()>;

/// One step of one query head: what a set of its tokens is worth.
class StepFunctions {
 public:
  /// `score` is that of tokens 0 .. row.step.
  StepFunctions(const Unit& unit, const AttentionRow& row, const std::vector<double>& score,
                bool accumulates)
      : unit_(unit), row_(row), score_(score), accumulates_(accumulates) {
    TokenSums all = nothing();
    for (const std::int32_t j : row.visible) add(j, all);
    output_ = all.weighted_value / row.weight_sum();
    of_all_ = values(all);
  }

  TokenSums nothing() const {
    return {0, row_.block.sink_weight[row_.row], Eigen::VectorXd::Zero(unit_.value.cols())};
  }

  void add(int token, TokenSums& sums) const {
    const double weight = row_.weight()[token];
    sums.score += accumulates_ ? score_[token] : row_.attention(token);
    sums.weight += weight;
    sums.weighted_value += weight * unit_.value.row(token).transpose().cast<double>();
  }

  SetValues values(const TokenSums& sums) const {
    return {sums.score, std::sqrt(sums.score), std::log1p(sums.score),
            closeness(sums.weighted_value, sums.weight),
            closeness(sums.weighted_value, row_.weight_sum())};
  }

  /// Those of the set of all visible tokens.
  const SetValues& of_all() const { return of_all_; }

 private:
  // |o_t|^2 - |o_t - o|^2, which is 0 for no token and |o_t|^2 for all.
  double closeness(const Eigen::VectorXd& weighted_value, double weight) const {
    if (weight == 0) return 0;
    return output_.squaredNorm() - (output_ - weighted_value / weight).squaredNorm();
  }

  const Unit& unit_;
  const AttentionRow& row_;
  const std::vector<double>& score_;
  bool accumulates_;
  Eigen::VectorXd output_;
  SetValues of_all_ = {};
};

/// How one function fares on the samples of one head. Differences are in shares of f of all tokens.
struct Returns {
  std::int64_t samples = 0;
  std::int64_t violations = 0;
  double largest_violation = 0;
  double diminished = 0;  // sum
  std::int64_t decreases = 0;
  double largest_decrease = 0;

  /// What x adds to S and to T.
  void add(double to_small, double to_large, double of_all, double rounding) {
    ++samples;
    diminished += (to_small - to_large) / of_all;
    if (to_large - to_small > rounding) {
      ++violations;
      largest_violation = std::max(largest_violation, (to_large - to_small) / of_all);
    }
    if (-to_large > rounding) {
      ++decreases;
      largest_decrease = std::max(largest_decrease, -to_large / of_all);
    }
  }
};

class Submodularity final : public RowAnalysis {
 public:
  Submodularity(const Params& params, const Subject& subject)
      : RowAnalysis(subject),
        accumulates_(params.choice("score") == "accumulated"),
        steps_(params.integer("steps")),
        samples_(params.integer("samples")),
        seed_(random_bits(unit_seed(static_cast<std::uint64_t>(subject.seed), unit().name),
                          "submodularity")),
        heads_(unit().query.size(), Head(unit().num_tokens())) {}

  std::vector<AnalysisRow> finish() override {
    std::vector<AnalysisRow> rows;
    for (int head = 0; head < unit().group_size(); ++head) {
      for (std::size_t i = 0; i < kFunctions.size(); ++i) {
        rows.push_back({head, values_of(kFunctions[i], heads_[head].returns[i])});
      }
    }
    return rows;
  }

 private:
  struct Head {
    explicit Head(int num_tokens) : score(num_tokens, 0) {}

    std::vector<double> score;  // per token: its accumulated attention
    std::array<Returns, kFunctions.size()> returns;
  };

  void add_row(const AttentionRow& row) override {
    Head& head = heads_[row.head];
    for (int j = row.first_visible; j <= row.step; ++j) head.score[j] += row.attention(j);
    if (is_sampled(row.step)) sample(row, head);
  }

  // The last step of each of `steps` parts of the text.
  bool is_sampled(int step) const {
    const std::int64_t n = unit().num_tokens();
    const std::int64_t part = ((step + 1) * std::int64_t{steps_} + n - 1) / n;
    return part * n / steps_ - 1 == step;
  }

  void sample(const AttentionRow& row, Head& head) {
    const auto tokens = static_cast<int>(row.visible.size());
    if (tokens < 2) return;
    const StepFunctions step(unit(), row, head.score, accumulates_);
    std::vector<int> order(row.visible.begin(), row.visible.end());
    const std::uint64_t of_row =
        random_bits(random_bits(seed_, static_cast<std::uint64_t>(row.head)),
                    static_cast<std::uint64_t>(row.step));
    for (int i = 0; i < samples_; ++i) {
      Draws draws{random_bits(of_row, static_cast<std::uint64_t>(i))};
      const int in_large = 1 + draws.below(tokens - 1);
      const int in_small = draws.below(in_large);
      for (int place = 0; place <= in_large; ++place) {  // x, then T, which S begins
        std::swap(order[place], order[place + draws.below(tokens - place)]);
      }
      compare(step, order, in_small, in_large, head);
    }
  }

  /// Random numbers of one sample.
  struct Draws {
    std::uint64_t seed;
    std::uint64_t drawn = 0;

    int below(int end) {
      return static_cast<int>(random_bits(seed, drawn++) % static_cast<std::uint64_t>(end));
    }
  };

  static void compare(const StepFunctions& step, const std::vector<int>& order, int in_small,
                      int in_large, Head& head) {
    TokenSums sums = step.nothing();
    const auto with_x = [&] {
      TokenSums more = sums;
      step.add(order[0], more);
      return step.values(more);
    };
    for (int i = 1; i <= in_small; ++i) step.add(order[i], sums);
    const SetValues small = step.values(sums);
    const SetValues small_and_x = with_x();
    for (int i = in_small + 1; i <= in_large; ++i) step.add(order[i], sums);
    const SetValues large = step.values(sums);
    const SetValues large_and_x = with_x();
    for (std::size_t f = 0; f < kFunctions.size(); ++f) {
      const double of_all = step.of_all()[f];
      if (of_all <= 0) continue;  // an output of 0 has no shares
      const double largest = std::max({of_all, std::abs(small[f]), std::abs(small_and_x[f]),
                                       std::abs(large[f]), std::abs(large_and_x[f])});
      head.returns[f].add(small_and_x[f] - small[f], large_and_x[f] - large[f], of_all,
                          kRounding * largest);
    }
  }

  std::vector<Value> values_of(const char* function, const Returns& returns) const {
    const auto share = [&](double sum) {
      std::optional<double> mean;
      if (returns.samples > 0) mean = sum / static_cast<double>(returns.samples);
      return value_of(mean);
    };
    return {std::string(function),
            std::string(accumulates_ ? "accumulated" : "step"),
            std::int64_t{steps_},
            std::int64_t{samples_},
            subject().seed,
            returns.samples,
            returns.violations,
            share(static_cast<double>(returns.violations)),
            returns.largest_violation,
            share(returns.diminished),
            returns.decreases,
            share(static_cast<double>(returns.decreases)),
            returns.largest_decrease};
  }

  static constexpr double kRounding = 1e-12;  // relative, of sums in double precision

  bool accumulates_;
  int steps_;
  int samples_;
  std::uint64_t seed_;
  std::vector<Head> heads_;
};

}  // namespace

AnalysisInfo submodularity_analysis() {
  return {
      .name = "submodularity",
      .shows = "per query head and set function: how often a token adds less to a larger set",
      .source = "H2O Definitions D.1 to D.4, D.16, section D.7, Remark D.14",
      .notes =
          "a sample is a set T of visible tokens of a size drawn evenly, a smaller set S of it, "
          "and a visible token x outside T; attention is the full one of the query head; the "
          "functions output and output-fixed are kvsim's: the paper names no f of the output",
      .params = {Param::integer("steps", 8, 1, 100'000,
                                "steps that are sampled, evenly over the text, the last included"),
                 Param::integer("samples", 200, 1, 1'000'000, "samples of (S, T, x) per step"),
                 Param::choice("score", {"accumulated", "step"},
                               "what a token is worth: its accumulated attention (Algorithm 2) or "
                               "that of the step (Algorithm 1 as printed)")},
      .columns =
          {text_column("function",
                       "f(S): identity, sqrt and log1p are h of the sum of the scores of S; output "
                       "is |o_t|^2 - |o_t - o_S|^2 with the softmax over S, as a cache that "
                       "holds S has it; output-fixed the same with the softmax over all tokens")
               .key(),
           text_column("score", "accumulated (Algorithm 2) or step (Algorithm 1 as printed)").key(),
           integer_column("steps", "asked for").key(),
           integer_column("samples_per_step", "asked for").key(),
           integer_column("seed", "of the samples").key(),
           integer_column("samples", "that count: all but those of steps whose output is 0"),
           integer_column("violations",
                          "samples with f(T + x) - f(T) > f(S + x) - f(S), beyond rounding (1e-12 "
                          "relative): f is submodular only if there is none"),
           real_column("violation_share", "of the samples; 0..1; NULL without samples"),
           real_column("largest_violation",
                       "largest f(T + x) - f(T) - (f(S + x) - f(S)), in shares of f of all tokens; "
                       "0 if none"),
           real_column("diminished_mean",
                       "mean f(S + x) - f(S) - (f(T + x) - f(T)), in shares of f of all tokens: 0 "
                       "for a sum, positive where returns diminish; NULL without samples"),
           integer_column("decreases",
                          "samples with f(T + x) < f(T), beyond rounding: f is monotone "
                          "(Definition D.2) only if there is none"),
           real_column("decrease_share", "of the samples; 0..1; NULL without samples"),
           real_column("largest_decrease",
                       "largest f(T) - f(T + x), in shares of f of all tokens")},
      .summary = {"violation_share", "largest_violation", "diminished_mean", "decrease_share"},
      .summary_by = {"function"},
      .make = make_analysis<Submodularity>};
}

}  // namespace kvsim
