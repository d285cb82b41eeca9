#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "sim/results/database.h"

namespace kvsim {

/// A table of a result file that has no fault.
struct CheckedTable {
  std::string name;
  std::int64_t rows = 0;
  std::int64_t units = 0;    ///< digests that agree with the rows
  bool has_digests = false;  ///< else its values alone were looked at
};

/// A result file that has no fault.
struct CheckedResults {
  int format = 0;                    ///< 0: from before there were digests
  std::vector<CheckedTable> tables;  ///< in the order of their names
};

/// Whether the file begins as SQLite's files do.
bool is_result_file(const std::filesystem::path& file);

/// Reads all of a result file: what SQLite finds wrong with it, the format version, types and
/// ranges of all values (value_ranges.h), and that the rows of every unit, and the SQL of every
/// table and view, are those that were written (row_digest.h). `poll` is called often and may throw
/// to end it.
///
/// Throws DataError at the first fault: it names the file, the table, the key, the column, what was
/// expected and what was found.
CheckedResults check_results(const std::filesystem::path& file,
                             const std::function<void()>& poll = {});

/// Throws DataError for values that a table or view cannot have.
void check_table(const std::filesystem::path& file, const std::string& table);

/// By table, the number of units, whose rows are those that were written, or DataError; none of a
/// file of an earlier version, and of tables that kvsim has never seen. The connection needs
/// add_digest_functions().
std::map<std::string, std::int64_t> check_digests(SQLite::Database& connection,
                                                  const std::string& file,
                                                  const std::function<void()>& poll = {});

}  // namespace kvsim
