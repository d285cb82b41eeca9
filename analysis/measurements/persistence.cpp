// Persistence of importance (Scissorhands section 3.2, Figure 2): are the tokens that are pivotal
// in the second part of a text those that were pivotal in the first?

#include "sim/attention/persistence.h"

#include <fmt/format.h>

#include <cmath>

#include "analysis/row_analysis.h"
#include "sim/base/errors.h"

namespace kvsim {
namespace {

class PersistenceAnalysis : public RowAnalysis {
 public:
  PersistenceAnalysis(const Params& params, const Subject& subject)
      : RowAnalysis(subject),
        threshold_(PivotalThreshold::parse(params.text("threshold"), "threshold")),
        heads_(unit().query.size(), Persistence(unit().num_tokens(), threshold_)) {}

  std::vector<AnalysisRow> finish() final {
    if (subject().device != nullptr) {
      heads_.clear();
      for (auto& steps : subject().device->pivotal_steps(unit(), threshold_)) {
        heads_.emplace_back(std::move(steps));
      }
    }
    return rows();
  }

 protected:
  virtual std::vector<AnalysisRow> rows() const = 0;

  void add_row(const AttentionRow& row) override {
    heads_[row.head].add(row.block, row.step, row.row, row.visible);
  }

  AnalysisRow measure(int head, int split) const {
    const Persistence::Counts some = heads_[head].at_some_step(split);
    const Persistence::Counts every = heads_[head].at_every_step(split);
    return {head,
            {std::int64_t{split}, threshold_.text(), some.pivotal_share(split), some.ratio(),
             every.pivotal_share(split), every.ratio(), std::int64_t{some.second},
             std::int64_t{every.second}}};
  }

 private:
  PivotalThreshold threshold_;
  std::vector<Persistence> heads_;
};

class AtSplit final : public PersistenceAnalysis {
 public:
  AtSplit(const Params& params, const Subject& subject)
      : PersistenceAnalysis(params, subject), split_(split_of(params.text("split"), unit())) {}

  std::vector<AnalysisRow> rows() const override {
    std::vector<AnalysisRow> all;
    for (int head = 0; head < unit().group_size(); ++head) all.push_back(measure(head, split_));
    return all;
  }

 private:
  // Shares are rounded down, so that 0.5 is floor(n / 2); budgets are rounded to the nearest.
  static constexpr double kRounding = 1e-9;  // 0.29 * 100 is just below 29

  // Throws UsageError for a split after the end of the text.
  static int split_of(const std::string& text, const Unit& unit) {
    const int num_tokens = unit.num_tokens();
    const Amount amount = Amount::parse(text, "split");
    double split = amount.value();
    if (amount.is_share()) split = std::floor(split * num_tokens + kRounding);
    if (split > num_tokens) {
      throw UsageError(
          fmt::format("split={}: sequence '{}' has {} tokens; take a share, or choose longer texts "
                      "with --sequences",
                      text, unit.name.sequence, num_tokens));
    }
    return static_cast<int>(split);
  }

  int split_;
};

class Curve final : public PersistenceAnalysis {
 public:
  Curve(const Params& params, const Subject& subject)
      : PersistenceAnalysis(params, subject), points_(params.integer("points")) {}

  std::vector<AnalysisRow> rows() const override {
    std::vector<AnalysisRow> all;
    const std::int64_t n = unit().num_tokens();
    for (int head = 0; head < unit().group_size(); ++head) {
      int previous = 0;
      for (int point = 1; point <= points_; ++point) {
        const int split = static_cast<int>(point * n / (points_ + 1));
        if (split == previous) continue;
        all.push_back(measure(head, split));
        previous = split;
      }
    }
    return all;
  }

 private:
  int points_;
};

void check_threshold(const Params& params) {
  PivotalThreshold::parse(params.text("threshold"), "threshold");
}

void check_split(const Params& params) {
  check_threshold(params);
  Amount::parse(params.text("split"), "split");
}

const char* const kPersistenceSource = "Scissorhands section 3.2, Figure 2";
const char* const kPersistenceNotes =
    "the paper's formula is a union over steps (pivotal_share, persistence_ratio), its text says "
    "\"from every position\" (the columns every_*): at every step that sees the token, its own "
    "included; step 0, which attends to itself alone, does not count against it";

Param threshold() {
  return Param::text("threshold",
                     "attention above which a token is pivotal at step t: C/t is C/(t+1) with "
                     "t counted from 0, a plain number is the same at every step",
                     "1/t");
}

std::vector<ColumnSchema> columns() {
  return {
      integer_column("split", "tokens in the first part: positions and steps before it").key(),
      text_column("threshold", "attention above which a token is pivotal at a step").key(),
      real_column("pivotal_share",
                  "of the tokens before the split, the share that is pivotal at some step before "
                  "it; 0..1"),
      real_column("persistence_ratio",
                  "of the tokens before the split that are pivotal at some step after it, the "
                  "share that is pivotal at some step before it too; 0..1, 1 if there are none"),
      real_column("every_pivotal_share",
                  "of the tokens before the split, the share that is pivotal at every step "
                  "before it that sees them; 0..1"),
      real_column("every_persistence_ratio",
                  "persistence_ratio with every step in place of some step; 0..1"),
      integer_column("later_pivotal",
                     "tokens before the split that are pivotal at some step after it"),
      integer_column("every_later_pivotal",
                     "tokens before the split that are pivotal at every step after it that sees "
                     "them, and seen by one")};
}

}  // namespace

AnalysisInfo persistence_analysis() {
  return {.name = "persistence",
          .shows = "per query head: do the tokens that are pivotal late matter early too",
          .source = kPersistenceSource,
          .notes = kPersistenceNotes,
          .params = {Param::text("split",
                                 "where the second part begins: tokens, or a share of the "
                                 "sequence, rounded down",
                                 "0.5"),
                     threshold()},
          .columns = columns(),
          .summary = {"pivotal_share", "persistence_ratio", "every_persistence_ratio"},
          .runs_on_device = true,
          .check = check_split,
          .make = make_analysis<AtSplit>};
}

AnalysisInfo persistence_curve_analysis() {
  return {.name = "persistence-curve",
          .shows = "per query head and split point: the columns of persistence",
          .source = kPersistenceSource,
          .notes = kPersistenceNotes,
          .params = {Param::integer("points", 15, 1, 100'000,
                                    "split points, evenly spaced inside the sequence"),
                     threshold()},
          .columns = columns(),
          .summary = {"pivotal_share", "persistence_ratio"},
          .summary_by = {"split"},
          .runs_on_device = true,
          .check = check_threshold,
          .make = make_analysis<Curve>};
}

}  // namespace kvsim
