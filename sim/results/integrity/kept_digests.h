#pragma once

#include <SQLiteCpp/SQLiteCpp.h>

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "sim/results/integrity/row_digest.h"

namespace kvsim {

/// The unit of the table `digest` that stands for the SQL of a table or view.
inline constexpr const char* kSchemaUnit = "schema";

TableSchema digest_schema();

/// Keeps the table `digest` (table_name, unit, rows, digest) of a file right while a connection
/// changes rows, whatever statements do so: triggers of the connection, which are not in the file,
/// note each row that comes or goes. A transaction with such changes cannot be committed without
/// finish().
class KeptDigests {
 public:
  /// Lets the connection note changes. It must not outlive `connection`.
  explicit KeptDigests(SQLite::Database& connection);
  ~KeptDigests();
  KeptDigests(const KeptDigests&) = delete;
  KeptDigests& operator=(const KeptDigests&) = delete;

  /// Call it first in a transaction that writes. A file of an earlier version becomes one of this:
  /// its rows get digests. Throws as format_version() and set_format_version().
  void begin(SQLite::Database& connection, const std::string& file);

  /// Call it last: writes what has changed.
  void finish(SQLite::Database& connection);

 private:
  struct Changes;

  void take(SQLite::Database& connection, const TableShape& table);
  void note_schema(SQLite::Database& connection);

  std::unique_ptr<Changes> changes_;
  SQLite::Database& connection_;
  int watched_schema_ = -1;  ///< PRAGMA schema_version of the tables with triggers
  int written_schema_ = -1;  ///< that of the digests of SQL
};

/// Lets a connection with KeptDigests note the changes of a table from now on; without them it does
/// nothing. Call it where a table is made or gets columns.
void watch_rows(SQLite::Database& connection, const std::string& table);

/// The digests that the file has; none if it is of an earlier version.
Digests kept_digests(SQLite::Database& connection, const std::string& file);

/// By name, the digest of the SQL of each table and view.
std::map<std::string, UnitDigest> digests_of_schema(SQLite::Database& connection);

}  // namespace kvsim
