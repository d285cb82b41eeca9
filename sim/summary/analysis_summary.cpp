#include "sim/summary/analysis_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ostream>

#include "sim/results/table.h"

namespace kvsim {
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

AnalysisSummary::Groups AnalysisSummary::groups_of(const AnalysisInfo& info,
                                                   const TableRows& table) {
  const auto group_places = places_of(group_columns(info), *table.schema);
  const auto mean_places = places_of(info.summary, *table.schema);
  Groups groups;
  for (const std::vector<Value>& row : table.rows) {
    Group group;
    for (const std::size_t place : group_places) group.push_back(row[place]);
    Means& means = groups[group];
    ++means.rows;
    means.columns.resize(mean_places.size());
    for (std::size_t m = 0; m < mean_places.size(); ++m) {
      const Value& value = row[mean_places[m]];
      if (const auto* real = std::get_if<double>(&value)) {
        if (!std::isfinite(*real)) continue;
        means.columns[m].sum += *real;
        ++means.columns[m].count;
      } else if (const auto* integer = std::get_if<std::int64_t>(&value)) {
        means.columns[m].sum += static_cast<double>(*integer);
        ++means.columns[m].count;
      }
    }
  }
  return groups;
}

void AnalysisSummary::add(const AnalysisPlan& plan, const PlannedUnit& unit,
                          const std::vector<TableRows>& tables) {
  for (std::size_t i = 0; i < plan.analyses.size(); ++i) {
    units_[&unit].push_back(groups_of(*plan.analyses[i].info, tables[i]));
  }
}

void AnalysisSummary::write(std::ostream& out, const AnalysisPlan& plan) const {
  for (std::size_t i = 0; i < plan.analyses.size(); ++i) {
    const AnalysisInfo& info = *plan.analyses[i].info;
    Groups all;
    for (const auto& [unit, analyses] : units_) {
      for (const auto& [group, means] : analyses[i]) {
        Means& sums = all[group];
        sums.rows += means.rows;
        sums.columns.resize(means.columns.size());
        for (std::size_t m = 0; m < means.columns.size(); ++m) {
          sums.columns[m].sum += means.columns[m].sum;
          sums.columns[m].count += means.columns[m].count;
        }
      }
    }
    out << fmt::format("{}{}: {} ({}); means over rows\n\n", i == 0 ? "" : "\n", info.name,
                       info.shows, info.source);
    if (all.empty()) {
      out << "no rows: nothing of what was asked for is there\n";
      continue;
    }
    bool some_lack_values = false;
    Table table{group_columns(info), {}};
    table.columns.emplace_back("rows");
    table.columns.insert(table.columns.end(), info.summary.begin(), info.summary.end());
    for (const auto& [group, means] : all) {
      std::vector<Value>& row = table.rows.emplace_back(group);
      row.emplace_back(means.rows);
      for (const Mean& mean : means.columns) {
        std::optional<double> value;
        if (mean.count > 0) value = mean.sum / static_cast<double>(mean.count);
        if (mean.count == 0 || mean.count == means.rows) {
          row.push_back(value_of(value));
        } else {
          const bool is_short = std::abs(*value) < 1e6;
          row.emplace_back(is_short ? fmt::format("{:.4f} ({})", *value, mean.count)
                                    : fmt::format("{:.1e} ({})", *value, mean.count));
          some_lack_values = true;
        }
      }
    }
    write_aligned(out, table);
    if (some_lack_values) {
      out << "(N): the mean is over N rows; the others have no value, for which the table about "
             "says why\n";
    }
  }
}

}  // namespace kvsim
