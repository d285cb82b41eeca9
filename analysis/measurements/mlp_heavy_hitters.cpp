// Heavy hitters among the neurons of an MLP (H2O appendix C.10, Figures 11 and 12).

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <optional>

#include "analysis/analysis.h"
#include "analysis/fits/power_law_fit.h"
#include "traces/unit_seed.h"

namespace kvsim {
namespace {

const char* const kMlpSource = "H2O appendix C.10, Figures 11 and 12";
const char* const kMlpNotes =
    "of a layer, so there is one row of it, not one per query head: it stands at the first query "
    "head of the first recorded KV head. The paper records OPT, whose ReLU gives 0 or more: a "
    "neuron is active where it gives more than the threshold, 0. What is recorded of a gated MLP "
    "is the activation of its gate, before it is multiplied";

constexpr double kNearlyAll = 0.99;  // "nearly all input tokens"
constexpr double kRarely = 0.01;

/// Counts of a layer's neurons over the text.
class MlpAnalysis : public Analysis {
 public:
  MlpAnalysis(const Params& params, const Subject& subject)
      : subject_(subject), threshold_(params.real("threshold")) {}

  std::vector<AnalysisRow> finish() final {
    if (!subject_.read_rows) return {};  // another unit stands for the layer
    subject_.read_rows(Dataset::mlp_activation, [&](const Matrix& rows) { add_rows(rows); });
    return rows();
  }

 protected:
  virtual std::vector<AnalysisRow> rows() const = 0;

  const Subject& subject() const { return subject_; }
  double threshold() const { return threshold_; }
  std::size_t num_neurons() const { return active_.size(); }

  /// Tokens on which the neuron is active.
  std::int64_t active(std::size_t neuron) const { return active_[neuron]; }
  double active_share(std::size_t neuron) const {
    return static_cast<double>(active_[neuron]) / subject_.unit.num_tokens();
  }
  /// Sums over tokens of the absolute value: GELU and SiLU give small negative numbers, too.
  const std::vector<double>& accumulated() const { return accumulated_; }

 private:
  void add_rows(const Matrix& rows) {
    active_.resize(static_cast<std::size_t>(rows.cols()));
    accumulated_.resize(active_.size());
    for (Eigen::Index row = 0; row < rows.rows(); ++row) {
      for (Eigen::Index neuron = 0; neuron < rows.cols(); ++neuron) {
        const double value = rows(row, neuron);
        active_[neuron] += value > threshold_;
        accumulated_[neuron] += std::abs(value);
      }
    }
  }

  const Subject& subject_;
  double threshold_;
  std::vector<std::int64_t> active_;
  std::vector<double> accumulated_;
};

class MlpHeavyHitters final : public MlpAnalysis {
 public:
  using MlpAnalysis::MlpAnalysis;

 private:
  std::vector<AnalysisRow> rows() const override {
    std::vector<std::size_t> order(num_neurons());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return active(a) > active(b); });
    std::vector<AnalysisRow> rows;
    for (std::size_t rank = 0; rank < order.size(); ++rank) {
      const std::size_t neuron = order[rank];
      rows.push_back(
          {0,
           {threshold(), static_cast<std::int64_t>(neuron), static_cast<std::int64_t>(rank + 1),
            active_share(neuron), accumulated()[neuron]}});
    }
    return rows;
  }
};

class MlpConcentration final : public MlpAnalysis {
 public:
  MlpConcentration(const Params& params, const Subject& subject)
      : MlpAnalysis(params, subject),
        heavy_(params.real("heavy")),
        bootstrap_samples_(params.integer("bootstrap")) {}

 private:
  std::vector<AnalysisRow> rows() const override {
    std::vector<double> shares;
    for (std::size_t neuron = 0; neuron < num_neurons(); ++neuron) {
      shares.push_back(active_share(neuron));
    }
    const auto neurons = static_cast<double>(num_neurons());
    const auto share_where = [&](const auto& holds) {
      return static_cast<double>(std::count_if(shares.begin(), shares.end(), holds)) / neurons;
    };
    const double mean = std::accumulate(shares.begin(), shares.end(), 0.0) / neurons;
    const double nearly_always = share_where([](double share) { return share >= kNearlyAll; });
    const double heavy = share_where([&](double share) { return share > heavy_; });
    const double rarely = share_where([](double share) { return share <= kRarely; });
    const double never = share_where([](double share) { return share == 0; });
    std::vector<Value> values{threshold(),
                              heavy_,
                              std::int64_t{bootstrap_samples_},
                              subject().seed,
                              static_cast<std::int64_t>(num_neurons()),
                              mean,
                              nearly_always,
                              heavy,
                              rarely,
                              never};
    for (const double part : {0.01, 0.05, 0.1, 0.2}) {
      values.push_back(value_of(share_of_best(part)));
    }
    for (Value& value : law_of(shares)) values.push_back(std::move(value));
    return {{0, std::move(values)}};
  }

  std::optional<double> share_of_best(double part) const {
    std::vector<double> sorted = accumulated();
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    const auto neurons = static_cast<double>(sorted.size());
    const auto count = static_cast<std::ptrdiff_t>(std::max(1.0, std::floor(part * neurons + 0.5)));
    const double all = std::accumulate(sorted.begin(), sorted.end(), 0.0);
    if (all == 0) return {};
    return std::accumulate(sorted.begin(), sorted.begin() + count, 0.0) / all;
  }

  /// The columns from `verdict` on.
  std::vector<Value> law_of(const std::vector<double>& shares) const {
    const Unit& unit = subject().unit;
    const Bootstrap bootstrap{bootstrap_samples_,
                              unit_seed(static_cast<std::uint64_t>(subject().seed), unit.name)};
    const auto fit = fit_power_law(shares, bootstrap);
    if (!fit) {
      return {"too few values", std::monostate(), std::monostate(), std::monostate(),
              std::monostate()};
    }
    return {verdict_of(*fit), fit->p_value, fit->exponent, fit->smallest, std::int64_t{fit->tail}};
  }

  double heavy_;
  int bootstrap_samples_;
};

Param threshold_param() {
  return Param::real("threshold", 0, -1e6, 1e6, "a neuron is active where it gives more");
}

ColumnSchema threshold_column() {
  return real_column("threshold", "a neuron is active where it gives more").key();
}

}  // namespace

AnalysisInfo mlp_heavy_hitters_analysis() {
  return {.name = "mlp-heavy-hitters",
          .shows = "per layer and neuron of its MLP: how often it is active, and how strongly",
          .source = kMlpSource,
          .notes = kMlpNotes,
          .params = {threshold_param()},
          .columns = {threshold_column(), integer_column("neuron", "of the layer, 0-based").key(),
                      integer_column("rank",
                                     "1: the largest active_share of the layer; the lower neuron "
                                     "first among equals"),
                      real_column("active_share",
                                  "share of tokens on which the neuron is active: the activated "
                                  "frequency of Figure 11; 0..1"),
                      real_column("activation",
                                  "sum over tokens of the absolute value that the neuron gives")},
          .summary = {"active_share", "activation"},
          .reads_attention = false,
          .needs = {Dataset::mlp_activation},
          .of_layer = true,
          .memory = [](const Params&, const AnalysisSize& size) -> AnalysisMemory {
            return {.rows = size.width(Dataset::mlp_activation), .bytes = 0};
          },
          .make = make_analysis<MlpHeavyHitters>};
}

AnalysisInfo mlp_concentration_analysis() {
  return {
      .name = "mlp-concentration",
      .shows =
          "per layer: whether few neurons of its MLP are active on nearly all tokens, and the "
          "others rarely",
      .source = kMlpSource,
      .notes = kMlpNotes,
      .params = {threshold_param(),
                 Param::real("heavy", 0.2, 0, 1,
                             "share of tokens above which a neuron is a heavy hitter, H2O's 20%"),
                 Param::integer("bootstrap", 100, 10, 10'000, "synthetic samples per p-value")},
      .columns =
          {threshold_column(),
           real_column("heavy", "share of tokens above which a neuron is a heavy hitter").key(),
           integer_column("bootstrap", "synthetic samples per p-value").key(),
           integer_column("seed", "of the synthetic samples").key(),
           integer_column("neurons", "of the layer"),
           real_column("active_share", "share of (token, neuron) where the neuron is active; 0..1"),
           real_column("nearly_always_share",
                       "share of neurons that are active on 99% of the tokens or more; 0..1"),
           real_column("heavy_share",
                       "share of neurons that are active on more than `heavy` of the tokens; 0..1"),
           real_column("rarely_share",
                       "share of neurons that are active on 1% of the tokens or fewer; 0..1"),
           real_column("never_share", "share of neurons that are active on none; 0..1"),
           real_column("best_1_percent",
                       "share of the layer's accumulated absolute activation in the 1% of neurons "
                       "with most of it; 0..1, NULL if all is 0"),
           real_column("best_5_percent", "the same for 5%"),
           real_column("best_10_percent", "the same for 10%"),
           real_column("best_20_percent", "the same for 20%"),
           text_column("verdict",
                       "whether the shares of tokens on which neurons are active follow a plain "
                       "power law, as the paper says: see the analysis power-law"),
           real_column("p_value", "share of synthetic samples of the law that fit it worse; 0..1"),
           real_column("exponent", "of the law"),
           real_column("smallest", "the share of tokens where the law begins"),
           integer_column("tail", "neurons from there on")},
      .summary = {"active_share", "nearly_always_share", "heavy_share", "rarely_share",
                  "best_20_percent"},
      .reads_attention = false,
      .needs = {Dataset::mlp_activation},
      .of_layer = true,
      .make = make_analysis<MlpConcentration>};
}

}  // namespace kvsim
