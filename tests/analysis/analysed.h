#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/analysis.h"

namespace kvsim::analysis_test {

/// A row of an analysis' table, read by column; a column that it lacks, or that holds something
/// else, throws.
struct Row {
  int head = 0;  ///< query head within the unit's group
  std::map<std::string, Value, std::less<>> values;

  const Value& at(std::string_view column) const;
  double real(std::string_view column) const { return std::get<double>(at(column)); }
  std::int64_t integer(std::string_view column) const { return std::get<std::int64_t>(at(column)); }
  const std::string& text(std::string_view column) const {
    return std::get<std::string>(at(column));
  }
  bool is_null(std::string_view column) const {
    return std::holds_alternative<std::monostate>(at(column));
  }
};

/// One analysis, as a user names it ("sparsity:threshold=0.1"), of one unit with the CPU back-end,
/// which is all of its layer.
std::vector<Row> analyse(std::string_view spec, const Unit& unit,
                         const std::vector<PolicyRun>& runs = {}, Mode mode = Mode::stream,
                         std::int64_t seed = 0);

/// The same of a unit that stands for its layer, of which this is recorded, [n, width].
std::vector<Row> analyse(std::string_view spec, const Unit& unit, const Matrix& of_layer);

/// A replay of the unit for analyses to look at; `policy` and `budget` as a user writes them.
PolicyRun run_of(std::string_view policy, int budget, const Unit& unit, Mode mode = Mode::stream,
                 std::uint64_t seed = 0);

}  // namespace kvsim::analysis_test
