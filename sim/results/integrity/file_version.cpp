#include "sim/results/integrity/file_version.h"

#include <fmt/format.h>

#include "sim/base/errors.h"
#include "sim/results/integrity/table_shape.h"

namespace kvsim {

int format_version(SQLite::Database& connection, const std::string& file) {
  // By one statement: another writer may set both between two.
  SQLite::Statement query(connection,
                          "SELECT application_id, user_version "
                          "FROM pragma_application_id, pragma_user_version");
  query.executeStep();
  const std::int32_t application = query.getColumn(0).getInt();
  const int version = query.getColumn(1).getInt();
  if (application == 0 && version == 0) return 0;
  if (application != kApplicationId) {
    throw DataError(
        fmt::format("{}: expected a result file of kvsim, found the SQLite file of another "
                    "application (application_id {:#010x}, user_version {}); name another file",
                    file, static_cast<std::uint32_t>(application), version));
  }
  if (version > kFormatVersion) {
    throw DataError(
        fmt::format("{}: expected a result file of format {} or before, found format {}; use a "
                    "newer kvsim",
                    file, kFormatVersion, version));
  }
  if (version < 1) {
    throw DataError(
        fmt::format("{}: expected a result file of format 1 or later, found format {}: the file is "
                    "damaged; restore it, or make its rows again in a new file",
                    file, version));
  }
  return version;
}

void set_format_version(SQLite::Database& connection, const std::string& file) {
  const std::vector<TableShape> tables = tables_of(connection);
  if (!tables.empty() && !connection.tableExists("replay")) {
    throw DataError(fmt::format(
        "{}: expected a result file, found a SQLite file with the table {} and without a table "
        "replay; name another file",
        file, tables.front().name));
  }
  connection.exec(fmt::format("PRAGMA application_id = {}", kApplicationId));
  connection.exec(fmt::format("PRAGMA user_version = {}", kFormatVersion));
}

}  // namespace kvsim
