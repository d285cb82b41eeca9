#pragma once

#include <compare>
#include <optional>
#include <string>
#include <vector>

#include "sim/results/integrity/table_shape.h"
#include "sim/results/result.h"

namespace kvsim {

/// What two rows with the same key become, column by column:
/// - all columns must be equal, but for
/// - `run_id` and `trace`: those of the row of the earlier run;
/// - `label`: none and a label are that label;
/// - of the table `run`, `seconds`, `rows_written` and `finished`: the larger number. The same run
///   was read before and after it ended;
/// - of the table `about`, the texts of the file with the later run.
class RowRules {
 public:
  explicit RowRules(const TableShape& table);

  /// The first column that keeps `stored` and `given` from being one row.
  std::optional<std::size_t> difference(const std::vector<Value>& stored,
                                        const std::vector<Value>& given) const;

  /// Makes `stored`, from which `given` has no difference, the row that both become, whichever of
  /// them came first. Returns whether that changes it. `later`: how the last run of the file of
  /// `given` compares with that of `stored`.
  bool join(std::vector<Value>& stored, const std::vector<Value>& given,
            std::strong_ordering later) const;

 private:
  enum class Rule { equal, label, provenance, largest, text };

  std::vector<Rule> rules_;
  std::vector<std::size_t> provenance_;  ///< run_id, then trace, where there are such columns
  std::vector<std::size_t> texts_;
};

}  // namespace kvsim
