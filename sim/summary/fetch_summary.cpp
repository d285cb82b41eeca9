#include "sim/summary/fetch_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <ostream>

#include "sim/results/table.h"

namespace kvsim {
namespace {

constexpr std::array kFetchPercents = {1, 2, 5, 10, 15, 20, 30, 40, 50, 60, 80, 100};

/// The mean of the numbers that there are; NULL if there are none.
class MeanOfKnown {
 public:
  void add(std::optional<double> number) {
    if (!number) return;
    sum_ += *number;
    ++count_;
  }
  Value value() const {
    return count_ == 0 ? Value(std::monostate()) : Value(sum_ / static_cast<double>(count_));
  }

 private:
  double sum_ = 0;
  std::int64_t count_ = 0;
};

/// Of a curve: the size that is nearest to this share of the text.
const FetchedAt& at_percent(const Fetches& fetches, Replacement replacement, int percent,
                            int num_tokens) {
  const double wanted = percent * 0.01 * num_tokens;
  const auto distance = [&](const FetchedAt& at) {
    constexpr double kOther = std::numeric_limits<double>::max();
    return at.replace == replacement ? std::abs(at.resident.tokens - wanted) : kOther;
  };
  return *std::min_element(
      fetches.caches.begin(), fetches.caches.end(),
      [&](const FetchedAt& a, const FetchedAt& b) { return distance(a) < distance(b); });
}

}  // namespace

void FetchSummary::add(const FetchPlan& plan, const PlannedUnit& unit,
                       const std::vector<Fetches>& found) {
  std::vector<Fetches>& kept = found_[&unit];
  for (const Fetches& of_selector : found) {
    Fetches& own = kept.emplace_back(of_selector);
    if (!plan.fetch.curve) continue;
    // A curve has thousands of sizes, of which a few are shown.
    own.caches.clear();
    for (const Replacement replacement : plan.fetch.replace) {
      for (const int percent : kFetchPercents) {
        own.caches.push_back(at_percent(of_selector, replacement, percent, unit.unit.num_tokens));
      }
    }
  }
}

void FetchSummary::write(std::ostream& out, const FetchPlan& plan) const {
  out << fmt::format("means over {} units\n\n", found_.size());
  write_choices(out, plan);
  out << '\n';
  if (plan.fetch.curve) {
    write_curves(out, plan);
  } else {
    write_sizes(out, plan);
  }
}

void FetchSummary::write_choices(std::ostream& out, const FetchPlan& plan) const {
  Table table{{"select", "tokens attended to", "attention recall", "squared error", "of exact topk",
               "of step before", "summary bytes"},
              {}};
  for (std::size_t i = 0; i < plan.fetch.selectors.size(); ++i) {
    std::array<MeanOfKnown, 6> means;
    for (const auto& [unit, found] : found_) {
      const SelectionQuality& quality = found[i].quality;
      means[0].add(quality.attended_mean);
      means[1].add(quality.attention_recall);
      means[2].add(quality.output_error_sq);
      means[3].add(quality.topk_overlap);
      means[4].add(quality.step_overlap);
      means[5].add(static_cast<double>(quality.summary_bytes));
    }
    std::vector<Value>& row = table.rows.emplace_back();
    row.emplace_back(plan.fetch.selectors[i].text());
    for (const MeanOfKnown& mean : means) row.push_back(mean.value());
  }
  write_aligned(out, table);
}

void FetchSummary::write_sizes(std::ostream& out, const FetchPlan& plan) const {
  Table table{{"select", "resident", "replace", "hit rate", "pages per step", "bytes per step",
               "p95", "max"},
              {}};
  for (std::size_t i = 0; i < plan.fetch.selectors.size(); ++i) {
    for (const Amount& amount : plan.fetch.resident) {
      for (const Replacement replacement : plan.fetch.replace) {
        std::array<MeanOfKnown, 5> means;
        for (const auto& [unit, found] : found_) {
          const auto page_bytes = static_cast<double>(found[i].page_bytes);
          for (const FetchedAt& cache : found[i].caches) {
            if (cache.replace != replacement) continue;
            if (cache.resident.request != amount.written()) continue;
            means[0].add(hit_rate(found[i].quality, cache.misses));
            means[1].add(cache.misses.mean);
            means[2].add(cache.misses.mean * page_bytes);
            means[3].add(cache.misses.p95 * page_bytes);
            means[4].add(static_cast<double>(cache.misses.max) * page_bytes);
          }
        }
        // A share that comes to the size of another one at every unit has no row.
        if (means[0].value() == Value(std::monostate())) continue;
        std::vector<Value>& row = table.rows.emplace_back();
        row.insert(row.end(),
                   {Value(plan.fetch.selectors[i].text()), amount.written(), name_of(replacement)});
        for (const MeanOfKnown& mean : means) row.push_back(mean.value());
      }
    }
  }
  write_aligned(out, table);
}

void FetchSummary::write_curves(std::ostream& out, const FetchPlan& plan) const {
  out << "hit rate by resident tokens, in percent of the text, or the least size\n\n";
  Table table{{"select", "replace"}, {}};
  for (const int percent : kFetchPercents) table.columns.push_back(fmt::format("{}%", percent));
  for (std::size_t i = 0; i < plan.fetch.selectors.size(); ++i) {
    for (const Replacement replacement : plan.fetch.replace) {
      std::vector<Value>& row = table.rows.emplace_back();
      row.insert(row.end(), {Value(plan.fetch.selectors[i].text()), name_of(replacement)});
      for (const int percent : kFetchPercents) {
        MeanOfKnown mean;
        for (const auto& [unit, found] : found_) {
          const FetchedAt& at = at_percent(found[i], replacement, percent, unit->unit.num_tokens);
          mean.add(hit_rate(found[i].quality, at.misses));
        }
        row.push_back(mean.value());
      }
    }
  }
  write_aligned(out, table);
}

}  // namespace kvsim
