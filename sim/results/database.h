#pragma once

#include <SQLiteCpp/SQLiteCpp.h>

#include <filesystem>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "sim/results/integrity/table_shape.h"
#include "sim/results/local_disk/scratch.h"
#include "sim/results/result.h"

namespace kvsim {

class KeptDigests;
class LocalCopy;

/// The SQLite file of a ResultStore, or a local copy of it (local_copy.h). Transactions have a
/// rollback journal, never a write-ahead log.
class Database {
 public:
  /// `scratch` is for writing. Throws UsageError if `file` is empty, DataError if it does not exist
  /// and `writing` is false, or if it is the file of another application or of a newer kvsim.
  Database(std::filesystem::path file, bool writing, const Scratch& scratch = {});
  /// In memory.
  Database();
  /// Brings the rows of a local copy to their place, or tells why not.
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  /// Runs `action` on the connection and translates errors of SQLite: DataError if the file is
  /// not a result file, std::runtime_error if it cannot be read or written.
  template <class Action>
  auto run(Action action) const {
    try {
      return action(*connection_);
    } catch (const SQLite::Exception& error) {
      fail(error);
    }
  }

  /// The same in a transaction that writes, and with it the digests of the rows
  /// (integrity/kept_digests.h). All rows are changed here.
  template <class Action>
  auto change(Action action) {
    return run([&](SQLite::Database& connection) {
      SQLite::Transaction transaction(connection, SQLite::TransactionBehavior::IMMEDIATE);
      begin_change();
      if constexpr (std::is_void_v<decltype(action(connection))>) {
        action(connection);
        commit(transaction);
      } else {
        auto result = action(connection);
        commit(transaction);
        return result;
      }
    });
  }

  const std::filesystem::path& file() const { return file_; }

  /// Members of LocalCopy; they do nothing without one. keep() returns the file that has the rows.
  void committed();
  void publish();
  std::filesystem::path keep();

 private:
  void begin_change();
  void commit(SQLite::Transaction& transaction);
  void release_copy();
  [[noreturn]] void fail(const SQLite::Exception& error) const;

  std::filesystem::path file_;
  std::shared_ptr<LocalCopy> copy_;
  std::unique_ptr<SQLite::Database> connection_;
  std::unique_ptr<KeptDigests> digests_;  ///< none to read, and in memory
};

/// Adds the columns that a table of an earlier version lacks. They are NULL in its rows.
void add_missing_columns(SQLite::Database& connection, const std::string& table,
                         const std::vector<ColumnShape>& columns);

/// Creates the view, or replaces the one of another version of the program. `sql` creates it.
void renew_view(SQLite::Database& connection, const std::string& name, const std::string& sql);

Value read_value(const SQLite::Column& column);

/// All columns of a row of a query.
std::vector<Value> read_values(SQLite::Statement& query);

/// `index` counts from 1.
void bind_value(SQLite::Statement& statement, int index, const Value& value);

}  // namespace kvsim
