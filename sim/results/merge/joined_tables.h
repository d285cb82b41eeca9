#pragma once

#include <map>
#include <string>
#include <vector>

#include "sim/results/integrity/table_shape.h"

namespace kvsim {

/// The tables of a merged file: of those that this version of the program writes, the present form;
/// of all others, what the parts have. A part may lack the columns that an earlier version lacks.
class JoinedTables {
 public:
  JoinedTables();

  /// Takes the tables of a file. Returns whether there is a table or a column that is new here.
  /// Throws DataError if the file has no table `replay`, or if a table of it and one of an earlier
  /// file or of this version differ in key or columns: it names both.
  bool add(const std::string& file, const std::vector<TableShape>& tables);

  /// Makes the tables and columns that a file lacks.
  void create(SQLite::Database& connection) const;

 private:
  struct Joined {
    TableShape shape;       ///< all columns; `sql` is that of the file with most of them
    std::size_t width = 0;  ///< the number of columns in `sql`
    std::string from;       ///< the first file that has it
    bool of_this_version = false;
    bool is_wanted = false;  ///< some file has it
  };

  static bool widen(Joined& joined, const TableShape& table);

  std::map<std::string, Joined> tables_;
};

}  // namespace kvsim
