#include "sim/cli/analysis_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include "sim/core/table.h"

namespace kvsim::cli {
namespace {

std::vector<std::size_t> places_of(const std::vector<std::string>& names,
                                   const TableSchema& schema) {
  std::vector<std::size_t> places;
  for (const std::string& name : names) {
    const auto column = std::find_if(schema.columns.begin(), schema.columns.end(),
                                     [&](const ColumnSchema& c) { return c.name == name; });
    places.push_back(static_cast<std::size_t>(column - schema.columns.begin()));
  }
  return places;
}

std::vector<std::string> group_columns(const AnalysisInfo& info) {
  std::vector<std::string> names{"layer"};
  names.insert(names.end(), info.summary_by.begin(), info.summary_by.end());
  return names;
}

}  // namespace

void AnalysisSummary::add(const AnalysisPlan& plan, const PlannedUnit& unit,
                          const std::vector<TableRows>& tables) {
  OfUnit& of_unit = units_[&unit];
  of_unit.means.resize(tables.size());
  for (std::size_t i = 0; i < tables.size(); ++i) {
    const AnalysisInfo& info = *plan.analyses[i].info;
    const auto group_places = places_of(group_columns(info), plan.schemas[i]);
    const auto mean_places = places_of(info.summary, plan.schemas[i]);
    of_unit.num_rows.push_back(static_cast<std::int64_t>(tables[i].rows.size()));
    for (const std::vector<Value>& row : tables[i].rows) {
      Group group;
      for (const std::size_t place : group_places) group.push_back(row[place]);
      std::vector<Mean>& means = of_unit.means[i][group];
      means.resize(mean_places.size());
      for (std::size_t m = 0; m < mean_places.size(); ++m) {
        const Value& value = row[mean_places[m]];
        if (const auto* real = std::get_if<double>(&value)) {
          means[m].sum += *real;
          ++means[m].count;
        } else if (const auto* integer = std::get_if<std::int64_t>(&value)) {
          means[m].sum += static_cast<double>(*integer);
          ++means[m].count;
        }
      }
    }
  }
}

void AnalysisSummary::write(std::ostream& out, const AnalysisPlan& plan) const {
  for (std::size_t i = 0; i < plan.analyses.size(); ++i) {
    const AnalysisInfo& info = *plan.analyses[i].info;
    Means all;
    std::int64_t num_rows = 0;
    for (const auto& [unit, of_unit] : units_) {
      num_rows += of_unit.num_rows[i];
      for (const auto& [group, means] : of_unit.means[i]) {
        std::vector<Mean>& sums = all[group];
        sums.resize(means.size());
        for (std::size_t m = 0; m < means.size(); ++m) {
          sums[m].sum += means[m].sum;
          sums[m].count += means[m].count;
        }
      }
    }
    out << fmt::format("{}{}: {} ({}); {} rows, means per layer\n\n", i == 0 ? "" : "\n", info.name,
                       info.shows, info.source, num_rows);
    Table table{group_columns(info), {}};
    table.columns.insert(table.columns.end(), info.summary.begin(), info.summary.end());
    for (const auto& [group, means] : all) {
      std::vector<Value>& row = table.rows.emplace_back(group);
      for (const Mean& mean : means) {
        if (mean.count == 0) {
          row.emplace_back(std::monostate());
        } else {
          row.emplace_back(mean.sum / static_cast<double>(mean.count));
        }
      }
    }
    write_aligned(out, table);
  }
}

}  // namespace kvsim::cli
