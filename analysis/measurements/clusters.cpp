// Clusterability of keys and values (SubGen Definition 1, section 3.1, Figure 1).

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "analysis/analysis.h"
#include "analysis/fits/clustering.h"
#include "analysis/fits/line_fit.h"
#include "sim/base/errors.h"

namespace kvsim {
namespace {

/// An analysis of the KV head's keys and values. The query heads of the group have equal rows.
class KeysAndValues : public Analysis {
 public:
  explicit KeysAndValues(const Subject& subject) : unit_(subject.unit) {}

  std::vector<AnalysisRow> finish() final {
    std::vector<AnalysisRow> rows;
    for (const auto& [of, points] :
         {std::pair<std::string, const Matrix*>("key", &unit_.key),
          std::pair<std::string, const Matrix*>("value", &unit_.value)}) {
      for (const std::vector<Value>& values : measure(of, *points)) {
        for (int head = 0; head < unit_.group_size(); ++head) rows.push_back({head, values});
      }
    }
    return rows;
  }

 private:
  virtual std::vector<std::vector<Value>> measure(const std::string& of, const Matrix& points) = 0;

  const Unit& unit_;
};

class Clusters final : public KeysAndValues {
 public:
  Clusters(const Params& params, const Subject& subject)
      : KeysAndValues(subject), most_(params.integer("most")) {}

 private:
  std::vector<std::vector<Value>> measure(const std::string& of, const Matrix& points) override {
    const std::vector<double> radii = greedy_radii(points, most_);
    std::vector<std::vector<Value>> rows;
    for (std::size_t k = 1; k <= radii.size(); k *= 2) {
      std::optional<double> relative;
      if (radii[0] > 0) relative = radii[k - 1] / radii[0];
      rows.push_back({of, static_cast<std::int64_t>(k), radii[k - 1], value_of(relative)});
    }
    return rows;
  }

  int most_;
};

/// "2.5", or "0.5r" in units of `radius`.
double delta_of(const std::string& text, double radius) {
  const bool is_relative = text.ends_with('r');
  double delta = 0;
  const char* end = text.data() + text.size() - (is_relative ? 1 : 0);
  const auto result = std::from_chars(text.data(), end, delta);
  if (result.ec != std::errc() || result.ptr != end || !(delta >= 0) || delta > 1e30) {
    throw UsageError(fmt::format("delta: '{}' is no distance; write 2.5 or 0.5r", text));
  }
  return is_relative ? delta * radius : delta;
}

class ClusterGrowth final : public KeysAndValues {
 public:
  ClusterGrowth(const Params& params, const Subject& subject)
      : KeysAndValues(subject), delta_(params.text("delta")) {}

 private:
  static constexpr int kFewest = 8;  // tokens; shorter prefixes show no growth
  static constexpr std::size_t kFittedShare =
      16;                                  // prefixes of at least 1/16 of the text are fitted
  static constexpr double kLinear = 0.95;  // on finite texts linear growth has an exponent below 1

  std::vector<std::vector<Value>> measure(const std::string& of, const Matrix& points) override {
    const double delta = delta_of(delta_, greedy_radii(points, 1).front());
    const std::vector<int> counts = cluster_online(points, delta).counts;
    std::vector<double> log_tokens;
    std::vector<double> log_clusters;
    const std::vector<std::size_t> prefixes = prefixes_of(counts.size());
    for (const std::size_t tokens : prefixes) {
      if (tokens * kFittedShare < counts.size()) continue;
      log_tokens.push_back(std::log(static_cast<double>(tokens)));
      log_clusters.push_back(std::log(counts[tokens - 1]));
    }
    std::optional<double> exponent;
    std::optional<double> error;
    std::optional<std::int64_t> sublinear;
    if (const auto line = fit_line(log_tokens, log_clusters)) {
      exponent = line->slope;
      error = line->slope_error;
      sublinear = line->slope + 2 * line->slope_error < kLinear;
    }
    std::vector<std::vector<Value>> rows;
    for (const std::size_t tokens : prefixes) {
      rows.push_back({of, delta_, static_cast<std::int64_t>(tokens), delta,
                      std::int64_t{counts[tokens - 1]}, value_of(exponent), value_of(error),
                      value_of(sublinear)});
    }
    return rows;
  }

  // Powers of the square root of 2, and all tokens.
  static std::vector<std::size_t> prefixes_of(std::size_t num_tokens) {
    std::vector<std::size_t> prefixes;
    double tokens = kFewest;
    while (tokens < static_cast<double>(num_tokens)) {
      prefixes.push_back(static_cast<std::size_t>(std::lround(tokens)));
      tokens *= M_SQRT2;
    }
    prefixes.push_back(num_tokens);
    prefixes.erase(std::unique(prefixes.begin(), prefixes.end()), prefixes.end());
    return prefixes;
  }

  std::string delta_;
};

void check_delta(const Params& params) { delta_of(params.text("delta"), 1); }

const char* const kSharedRows =
    "the query heads of a group share keys and values, and so have the "
    "same rows";

ColumnSchema of_column() { return text_column("of", "key (after rotation) or value").key(); }

}  // namespace

AnalysisInfo clusters_analysis() {
  return {.name = "clusters",
          .shows = "per head and number of centres: the radius that greedy k-centre leaves",
          .source = "SubGen sections 3.1 and 3.2, Figure 1, Definition 1",
          .notes = fmt::format(
              "the first centre is token 0, ties go to the earlier token; with radius R for k the "
              "head is (k, 2R)-clusterable, and not (k, d)-clusterable for any d < R; {}",
              kSharedRows),
          .params = {Param::integer("most", 1024, 1, 1'000'000,
                                    "most centres; k runs over the powers of 2 up to it and to the "
                                    "number of tokens")},
          .columns = {of_column(), integer_column("k", "centres").key(),
                      real_column("radius",
                                  "largest Euclidean distance of a vector to its nearest centre, "
                                  "in the units of the vectors"),
                      real_column("relative_radius",
                                  "radius over the radius with one centre; 0..1, NULL if all "
                                  "vectors are equal")},
          .summary = {"radius", "relative_radius"},
          .summary_by = {"of", "k"},
          .reads_attention = false,
          .make = make_analysis<Clusters>};
}

AnalysisInfo cluster_growth_analysis() {
  return {.name = "cluster-growth",
          .shows = "per head and prefix of the text: how many clusters of a given width it takes",
          .source = "SubGen Algorithm 1 lines 12-21, Definition 1, Corollary 1",
          .notes =
              fmt::format("clusters are formed as the algorithm meets the tokens; {}", kSharedRows),
          .params = {Param::text("delta",
                                 "distance that a vector may have from the first of its cluster: "
                                 "a number, or 0.5r, relative to the largest distance from token 0",
                                 "0.5r")},
          .columns = {of_column(), text_column("delta_request", "delta as it was asked for").key(),
                      integer_column("tokens",
                                     "length of the prefix: 8, then factors of sqrt(2), then all")
                          .key(),
                      real_column("delta", "in the units of the vectors"),
                      integer_column("clusters", "clusters that the prefix takes, 1..tokens"),
                      real_column("exponent",
                                  "slope of log clusters over log tokens, least squares over the "
                                  "prefixes of at least 1/16 of the text; NULL with fewer than 3"),
                      real_column("exponent_error",
                                  "its standard error, were the prefixes independent"),
                      integer_column("sublinear",
                                     "1 if exponent + 2 exponent_error < 0.95, else 0: growth as "
                                     "n^(1-Omega(1)), which Corollary 1 asks for")},
          .summary = {"clusters", "exponent", "sublinear"},
          .summary_by = {"of"},
          .reads_attention = false,
          .check = check_delta,
          .make = make_analysis<ClusterGrowth>};
}

}  // namespace kvsim
