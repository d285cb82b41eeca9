// Are attention scores power laws (H2O section 3.2, Scissorhands section 1 and Theorem 4.1)?

#include "analysis/attention_sample.h"
#include "analysis/fits/shifted_power_law_fit.h"
#include "traces/unit_seed.h"

namespace kvsim {
namespace {

class PowerLaw final : public RowAnalysis {
 public:
  PowerLaw(const Params& params, const Subject& subject)
      : RowAnalysis(subject),
        sample_size_(params.integer("sample")),
        bootstrap_samples_(params.integer("bootstrap")),
        accumulated_(unit().query.size(), std::vector<double>(unit().num_tokens(), 0)),
        sample_(subject, sample_size_, 1) {}

  std::vector<AnalysisRow> finish() override {
    std::vector<AnalysisRow> rows;
    for (int head = 0; head < unit().group_size(); ++head) {
      for (const auto& [of, values] :
           {std::pair<std::string, const std::vector<double>*>("accumulated", &accumulated_[head]),
            std::pair<std::string, const std::vector<double>*>("attention",
                                                               &sample_.of_head(head))}) {
        const Bootstrap bootstrap{
            bootstrap_samples_,
            random_bits(unit_seed(static_cast<std::uint64_t>(subject().seed), unit().name),
                        static_cast<std::uint64_t>(head))};
        rows.push_back({head, row_of(of, "plain", *values, plain(*values, bootstrap))});
        rows.push_back({head, row_of(of, "shifted", *values, shifted(*values, bootstrap))});
      }
    }
    return rows;
  }

 private:
  void add_row(const AttentionRow& row) override {
    const std::span<const float> weight = row.weight();
    double* const accumulated = accumulated_[row.head].data();
    const double sum = row.weight_sum();
    for (int j = row.first_visible; j <= row.step; ++j) accumulated[j] += weight[j] / sum;
    sample_.add(row);
  }

  std::vector<Value> row_of(const std::string& of, const std::string& form,
                            const std::vector<double>& values, std::vector<Value> fit) const {
    std::vector<Value> row{of,
                           form,
                           std::int64_t{sample_size_},
                           std::int64_t{bootstrap_samples_},
                           subject().seed,
                           static_cast<std::int64_t>(values.size())};
    row.insert(row.end(), fit.begin(), fit.end());
    return row;
  }

  static std::vector<Value> not_fitted() {
    std::vector<Value> values(14, std::monostate());
    values.front() = "too few values";
    return values;
  }

  static std::vector<Value> plain(const std::vector<double>& values, const Bootstrap& bootstrap) {
    const auto fit = fit_power_law(values, bootstrap);
    if (!fit) return not_fitted();
    return {verdict_of(*fit),
            fit->p_value,
            fit->exponent,
            fit->exponent_error,
            std::monostate(),
            std::monostate(),
            fit->smallest,
            std::int64_t{fit->tail},
            fit->distance,
            fit->over_exponential.log_ratio,
            fit->over_exponential.significance,
            fit->over_log_normal.log_ratio,
            fit->over_log_normal.significance,
            std::monostate()};
  }

  static std::vector<Value> shifted(const std::vector<double>& values, const Bootstrap& bootstrap) {
    const auto fit = fit_shifted_power_law(values, bootstrap);
    if (!fit) return not_fitted();
    std::string verdict = "plausible";
    if (fit->at_limit) verdict = "no such law: the fit runs off to its limit";
    if (fit->p_value < PowerLawFit::kPlausible) verdict = "rejected";
    std::vector<Value> row(14, std::monostate());
    row[0] = verdict;
    row[1] = fit->p_value;
    row[2] = fit->exponent;
    row[4] = fit->shift;
    row[5] = fit->upper;
    row[8] = fit->distance;
    row[13] = std::int64_t{fit->exponent > 2 && fit->upper >= 5 * fit->shift};
    return row;
  }

  int sample_size_;
  int bootstrap_samples_;
  std::vector<std::vector<double>> accumulated_;  // per head and token: sum of a[t,j]
  AttentionSample sample_;
};

}  // namespace

AnalysisInfo power_law_analysis() {
  return {
      .name = "power-law",
      .shows = "per query head, quantity and form of the law: the fit and whether it holds",
      .source =
          "H2O section 3.2; Scissorhands Theorem 4.1, appendix B.3; method: Clauset, Shalizi "
          "and Newman 2009",
      .notes =
          "attention is beta_{t,j} of Theorem 4.1, without the step's own token and the share of a "
          "learned sink, times the number of tokens before it, so that all steps have the mean 1; "
          "a law that the "
          "test does not reject on few values may still be wrong: raise sample",
      .params = {Param::integer("sample", 1000, 10, 100'000,
                                "values of beta_{t,j} per head, drawn from all steps"),
                 Param::integer("bootstrap", 100, 10, 10'000, "synthetic samples per p-value")},
      .columns =
          {text_column("of",
                       "accumulated: sum of a[t,j] over steps, per token; attention: "
                       "beta_{t,j}, per entry")
               .key(),
           text_column("form",
                       "plain: x^-exponent from smallest on; shifted: (x + shift)^-exponent "
                       "for x in [0, upper - shift]")
               .key(),
           integer_column("sample", "values of beta_{t,j} asked for").key(),
           integer_column("bootstrap", "synthetic samples per p-value").key(),
           integer_column("seed", "of the sample and the synthetic samples").key(),
           integer_column("num_values", "values that there were; those above 0 are fitted"),
           text_column("verdict",
                       "plausible only if p_value >= 0.1, no alternative fits significantly (0.1) "
                       "better and, for plain, the tail has 50 values; else why not"),
           real_column("p_value", "share of synthetic samples of the law that fit it worse; 0..1"),
           real_column("exponent", "a, or k of Theorem 4.1"),
           real_column("exponent_error", "standard error, plain only"),
           real_column("shift", "b of Theorem 4.1, in the unit of the values"),
           real_column("upper", "u of Theorem 4.1, likewise: the largest value plus shift"),
           real_column("smallest", "where the plain law begins, in the unit of the values"),
           integer_column("tail", "values from smallest on"),
           real_column("distance", "Kolmogorov-Smirnov distance of values and law; 0..1"),
           real_column(
               "exponential_ratio",
               "log-likelihood ratio to an exponential tail, positive favours the power law"),
           real_column("exponential_significance", "Vuong's p-value of its sign"),
           real_column("log_normal_ratio", "the same for a log-normal tail"),
           real_column("log_normal_significance", "Vuong's p-value of its sign"),
           integer_column("theorem_range",
                          "shifted only: 1 if k > 2 and u >= 5 b, as Theorem B.3 assumes")},
      .summary = {"p_value", "exponent", "distance"},
      .summary_by = {"of", "form", "verdict"},
      .make = make_analysis<PowerLaw>};
}

}  // namespace kvsim
