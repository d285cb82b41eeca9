#pragma once

#include <set>
#include <string>
#include <vector>

#include "sim/results/database.h"
#include "sim/results/integrity/table_shape.h"

namespace kvsim {

/// The units whose rows of the table `replay` come from several files: no writer has compared them
/// with each other.
class SharedUnits {
 public:
  /// `merged` has the table in this shape, and stays so.
  SharedUnits(const Database& merged, const TableShape& replay);

  /// Call it for the rows of one file in the order of their key, before a row is added.
  void before(const std::vector<Value>& row);
  /// The row of the last call is a new one of the merged file.
  void added();
  /// From now on rows are of another file.
  void next_file();

  /// Throws DataError if a row exceeds a bound that another row of its unit proves
  /// (check_bounds()): it names the first of `files` that has the one and the other. Rows of
  /// another code than the present one say nothing about these.
  void check(const std::vector<std::string>& files) const;

 private:
  using Unit = std::vector<Value>;  ///< trace_id, sequence, layer, kv_head

  const Database& merged_;
  std::vector<std::size_t> places_;
  Unit unit_;
  bool is_there_ = false;  ///< rows of `unit_` of an earlier file
  std::set<Unit> shared_;
};

}  // namespace kvsim
