// Repetitive attention patterns (Scissorhands section 3.1, Figure 1 and appendix A): do different
// steps attend to the same tokens?

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>

#include "analysis/row_analysis.h"
#include "policies/parameters/split.h"
#include "sim/base/errors.h"

namespace kvsim {
namespace {

const char* const kMapsSource = "Scissorhands section 3.1, Figure 1";
constexpr int kMostLevel = 8;

/// The chosen steps: "3" is that many, evenly spaced over the second half and ending with the last
/// step; "178/228/278" are those steps.
std::vector<int> steps_of(const std::string& text, int num_tokens) {
  std::vector<int> numbers;
  for (const std::string_view part : split(text, '/')) {
    int number = 0;
    const auto result = std::from_chars(part.data(), part.data() + part.size(), number);
    if (result.ec != std::errc() || result.ptr != part.data() + part.size() || number < 0) {
      throw UsageError(fmt::format(
          "positions: '{}' is neither a number of positions nor positions as in 178/228/278",
          text));
    }
    numbers.push_back(number);
  }
  std::vector<int> steps;
  if (numbers.size() > 1) {
    steps = numbers;
  } else {
    const std::int64_t half = num_tokens - num_tokens / 2;
    const std::int64_t count = std::min<std::int64_t>(numbers.front(), half);
    for (std::int64_t i = 1; i <= count; ++i) {
      steps.push_back(static_cast<int>(num_tokens / 2 + i * half / count - 1));
    }
  }
  std::erase_if(steps, [](int step) { return step < 0; });
  std::sort(steps.begin(), steps.end());
  steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
  return steps;
}

/// Throws UsageError for a step that the text does not have.
std::vector<int> steps_in(const std::string& text, const Unit& unit) {
  std::vector<int> steps = steps_of(text, unit.num_tokens());
  if (!steps.empty() && steps.back() >= unit.num_tokens()) {
    throw UsageError(
        fmt::format("positions={}: sequence '{}' has {} tokens, so no step {}; leave it out, or "
                    "choose longer texts with --sequences",
                    text, unit.name.sequence, unit.num_tokens(), steps.back()));
  }
  return steps;
}

/// The full attention of every head at the chosen steps.
class AtPositions : public RowAnalysis {
 public:
  AtPositions(const Params& params, const Subject& subject)
      : RowAnalysis(subject),
        steps_(steps_in(params.text("positions"), unit())),
        maps_(unit().query.size()) {}

 protected:
  struct Map {
    int step;
    std::vector<std::int32_t> visible;  // tokens that it sees
    std::vector<double> attention;      // of tokens 0 .. step

    bool is_significant(std::size_t token) const { return attention[token] * (step + 1) > 1; }
  };

  const std::vector<Map>& maps(int head) const { return maps_[head]; }

 private:
  void add_row(const AttentionRow& row) override {
    if (!std::binary_search(steps_.begin(), steps_.end(), row.step)) return;
    Map& map = maps_[row.head].emplace_back(Map{row.step, row.visible, {}});
    for (int j = 0; j <= row.step; ++j) map.attention.push_back(row.attention(j));
  }

  std::vector<int> steps_;
  std::vector<std::vector<Map>> maps_;  // per head
};

class AttentionMaps final : public AtPositions {
 public:
  using AtPositions::AtPositions;

  std::vector<AnalysisRow> finish() override {
    std::vector<AnalysisRow> rows;
    for (int head = 0; head < unit().group_size(); ++head) {
      for (const Map& map : maps(head)) {
        for (std::size_t token = 0; token < map.attention.size(); ++token) {
          rows.push_back(
              {head,
               {std::int64_t{map.step}, static_cast<std::int64_t>(token), map.attention[token],
                std::int64_t{map.is_significant(token)}, level(map, token)}});
        }
      }
    }
    return rows;
  }

 private:
  static std::int64_t level(const Map& map, std::size_t token) {
    if (!map.is_significant(token)) return 0;
    const double times = map.attention[token] * (map.step + 1);
    return std::min(kMostLevel, 1 + static_cast<int>(std::log2(times)));
  }
};

class Repetition final : public AtPositions {
 public:
  using AtPositions::AtPositions;

  std::vector<AnalysisRow> finish() override {
    std::vector<AnalysisRow> rows;
    for (int head = 0; head < unit().group_size(); ++head) {
      for (std::size_t b = 0; b < maps(head).size(); ++b) {
        for (std::size_t a = 0; a < b; ++a) {
          rows.push_back(compare(head, maps(head)[a], maps(head)[b]));
        }
      }
    }
    return rows;
  }

 private:
  // Over the tokens that both steps see.
  static AnalysisRow compare(int head, const Map& earlier, const Map& later) {
    std::int64_t first = 0;
    std::int64_t second = 0;
    std::int64_t both = 0;
    std::vector<std::size_t> seen;
    std::ranges::set_intersection(earlier.visible, later.visible, std::back_inserter(seen));
    for (const std::size_t token : seen) {
      first += earlier.is_significant(token);
      second += later.is_significant(token);
      both += earlier.is_significant(token) && later.is_significant(token);
    }
    const std::int64_t either = first + second - both;
    const auto tokens = static_cast<double>(seen.size());
    const double expected =
        tokens == 0 ? 0 : static_cast<double>(first) * static_cast<double>(second) / tokens;
    return {head,
            {std::int64_t{earlier.step}, std::int64_t{later.step},
             either == 0 ? 1.0 : static_cast<double>(both) / static_cast<double>(either), first,
             second, both, expected}};
  }
};

AnalysisMemory memory_of_maps(const Params& params, const AnalysisSize& size) {
  std::size_t entries = 0;
  for (const int step : steps_of(params.text("positions"), static_cast<int>(size.tokens))) {
    entries += size.group * std::min(static_cast<std::size_t>(step) + 1, size.tokens);
  }
  return {.rows = entries, .bytes = 2 * entries * sizeof(double)};
}

void check_positions(const Params& params) { steps_of(params.text("positions"), 1); }

Param positions() {
  return Param::text("positions",
                     "steps to look at: a number of them, evenly spaced over the second half, or "
                     "the steps themselves as in 178/228/278 (178/178 for one)",
                     "3");
}

}  // namespace

AnalysisInfo attention_maps_analysis() {
  return {
      .name = "attention-maps",
      .shows = "per query head, chosen step and token: the discretised attention",
      .source = kMapsSource,
      .params = {positions()},
      .columns = {integer_column("step", "t: the token that attends, 0-based").key(),
                  integer_column("token", "j <= t: the token attended to, 0-based").key(),
                  real_column("attention", "a[t,j]; 0..1"),
                  integer_column("significant", "1 if a[t,j] > 1/(t+1), as in the figure; else 0"),
                  integer_column("level", fmt::format("0 if not significant, else 1 + floor(log2("
                                                      "a[t,j] (t+1))), at most {}",
                                                      kMostLevel))},
      .summary = {"significant"},
      .summary_by = {"step"},
      .check = check_positions,
      .memory = memory_of_maps,
      .make = make_analysis<AttentionMaps>};
}

AnalysisInfo repetition_analysis() {
  return {.name = "repetition",
          .shows = "per query head and pair of chosen steps: do both attend to the same tokens",
          .source = kMapsSource,
          .notes =
              "the figure shows it to the eye; here it is counted, over the tokens that both "
              "steps see",
          .params = {positions()},
          .columns = {integer_column("step", "the earlier step").key(),
                      integer_column("other_step", "the later step").key(),
                      real_column("jaccard",
                                  "tokens significant (a[t,j] > 1/(t+1)) at both steps over "
                                  "tokens significant at either; 0..1, 1 if there are none"),
                      integer_column("significant",
                                     "of the tokens that both steps see, those significant at the "
                                     "earlier one"),
                      integer_column("other_significant", "those significant at the later one"),
                      integer_column("shared", "tokens significant at both"),
                      real_column("expected_shared",
                                  "shared tokens if both chose independently: the product of the "
                                  "two counts over the number of tokens")},
          .summary = {"jaccard", "shared", "expected_shared"},
          .check = check_positions,
          .make = make_analysis<Repetition>};
}

}  // namespace kvsim
